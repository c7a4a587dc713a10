package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/trust"
)

var (
	noon  = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	admin = broker.Actor{Name: "alice", Role: broker.RolePlatformAdmin}
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		ok(t, err)
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t testing.TB, err error, code string) {
	t.Helper()
	if got := broker.AsError(err); err == nil || got.Code != code {
		t.Fatalf("%v, want %s", err, code)
	}
}

// plant is a broker's data directory, and the recipient of its backups.
type plant struct {
	dir, identity, recipient string
	db                       *store.DB
	root                     string
}

func newPlant(t testing.TB) *plant {
	t.Helper()
	p := &plant{dir: filepath.Join(t.TempDir(), "broker")}
	ok(t, os.Mkdir(p.dir, 0o700))
	ok(t, trust.Make(filepath.Join(p.dir, "keys"), trust.MakeOptions{Now: noon}))
	p.db = must(store.Open(t.Context(), store.Options{URL: "sqlite:" + filepath.Join(p.dir, "hostler.db"), Now: func() time.Time { return noon }}))(t)
	t.Cleanup(func() { _ = p.db.Close() })
	a := must(trust.Open(t.Context(), trust.Options{Dir: filepath.Join(p.dir, "keys"), DB: p.db, Now: func() time.Time { return noon }}))(t)
	p.root = a.RootSHA256()
	must(p.db.CreateNode(t.Context(), admin, store.NewNode{ID: "n-one", Hostname: "one", Site: "dc1", Bootstrap: "command", TokenHash: "hash", TokenExpires: noon.Add(time.Hour)}))(t)
	ok(t, os.Mkdir(filepath.Join(p.dir, "secrets"), 0o700))
	kept := must(secrets.Open(filepath.Join(p.dir, "secrets")))(t)
	ok(t, kept.Put(t.Context(), "maas-sites/x/api-token", []byte("the-planted-secret")))
	ok(t, kept.Close())
	id := must(age.GenerateX25519Identity())(t)
	p.identity, p.recipient = filepath.Join(t.TempDir(), "identity"), id.Recipient().String()
	ok(t, os.WriteFile(p.identity, []byte("# made by a test\n"+id.String()+"\n"), 0o600))
	return p
}

func (p *plant) write(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "backup.age")
	_, _, err := Write(t.Context(), WriteOptions{DataDir: p.dir, File: file, Recipients: []string{p.recipient}, Version: "test", Now: noon})
	ok(t, err)
	return file
}

func (p *plant) into(t testing.TB) RestoreOptions {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	ok(t, os.Mkdir(dir, 0o700))
	ok(t, os.WriteFile(filepath.Join(dir, LockName), nil, 0o600))
	return RestoreOptions{DataDir: dir, Identity: p.identity, RootSHA256: p.root, Now: noon.Add(time.Hour), Actor: admin}
}

func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	ok(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			all = append(all, name)
		}
		return err
	}))
	return all
}

func opened(t testing.TB, dir string) *store.DB {
	t.Helper()
	db := must(store.Open(context.Background(), store.Options{URL: "sqlite:" + filepath.Join(dir, "hostler.db")}))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestABackupBesideARunningBrokerIsRestoredAndHeld(t *testing.T) {
	p := newPlant(t)
	before := names(t, p.dir)
	file := p.write(t)
	if after := names(t, p.dir); !slices.Equal(before, after) {
		t.Errorf("left in the data directory: %v", after)
	}
	must(p.db.CreateNode(t.Context(), admin, store.NewNode{ID: "n-later", Hostname: "later", Site: "dc1", Bootstrap: "command", TokenHash: "h2", TokenExpires: noon.Add(time.Hour)}))(t)
	if raw := must(os.ReadFile(file))(t); bytes.Contains(raw, []byte("hostler-node")) || bytes.Contains(raw, []byte("keyring")) {
		t.Error("it is not encrypted")
	}
	if info := must(os.Stat(file))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}

	o := p.into(t)
	o.File = file
	m, v, err := Restore(t.Context(), o)
	ok(t, err)
	if v.Nodes != 1 || v.EnrolTokens != 1 || !m.TakenAt.Equal(noon) {
		t.Errorf("%+v, taken at %v", v, m.TakenAt)
	}
	db := opened(t, o.DataDir)
	if last := must(db.LastRestore(t.Context()))(t); !last.Held() || !last.TakenAt.Equal(noon) {
		t.Errorf("%+v", last)
	}
	must(db.Node(t.Context(), "n-one"))(t)
	if _, err := db.Node(t.Context(), "n-later"); err == nil {
		t.Error("it has what came after it")
	}
	kept := must(secrets.Open(filepath.Join(o.DataDir, "secrets")))(t)
	defer func() { _ = kept.Close() }()
	if got := must(kept.Get(t.Context(), "maas-sites/x/api-token"))(t); string(got) != "the-planted-secret" {
		t.Errorf("the secret is %q", got)
	}
	a := must(trust.Open(t.Context(), trust.Options{Dir: filepath.Join(o.DataDir, "keys"), DB: db, Now: func() time.Time { return noon }}))(t)
	if a.RootSHA256() != p.root {
		t.Error("the keys are others")
	}
	for _, name := range names(t, o.DataDir) {
		if info := must(os.Stat(filepath.Join(o.DataDir, name)))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	if _, err := os.Stat(filepath.Join(o.DataDir, markName)); err == nil {
		t.Error("the mark is still there")
	}
}

func TestABackupSaysWhichKeysAreInIt(t *testing.T) {
	p := newPlant(t)
	m, _, err := Write(t.Context(), WriteOptions{DataDir: p.dir, File: filepath.Join(t.TempDir(), "b"), Recipients: []string{p.recipient}, Now: noon})
	ok(t, err)
	var uses []string
	for _, k := range m.Keys {
		if k.File == "" {
			t.Errorf("%s is not inside", k.Use)
		}
		uses = append(uses, string(k.Use))
	}
	slices.Sort(uses)
	if want := []string{"issuing", "root", "statement", "task", "trust"}; !slices.Equal(uses, want) {
		t.Errorf("keys %v", uses)
	}
	ok(t, os.Remove(filepath.Join(p.dir, "keys", m.Keys[0].File))) // taken offline
	m, _, err = Write(t.Context(), WriteOptions{DataDir: p.dir, File: filepath.Join(t.TempDir(), "b"), Recipients: []string{p.recipient}, Now: noon})
	ok(t, err)
	if m.Keys[0].File != "" || m.Keys[0].URI == "" {
		t.Errorf("a key that is not there is said to be inside: %+v", m.Keys[0])
	}
}

func TestABackupThatIsThereIsNotReplaced(t *testing.T) {
	p := newPlant(t)
	file := p.write(t)
	o := WriteOptions{DataDir: p.dir, File: file, Recipients: []string{p.recipient}, Now: noon}
	was := must(os.ReadFile(file))(t)
	_, _, err := Write(t.Context(), o)
	refused(t, err, "backup_exists")
	if !bytes.Equal(was, must(os.ReadFile(file))(t)) {
		t.Error("it was replaced all the same")
	}
	o.Force = true
	_, _, err = Write(t.Context(), o)
	ok(t, err)
	if bytes.Equal(was, must(os.ReadFile(file))(t)) {
		t.Error("it was not replaced")
	}
	o.File, o.Recipients = filepath.Join(t.TempDir(), "b"), []string{"ssh-ed25519 AAAA"}
	_, _, err = Write(t.Context(), o)
	refused(t, err, "recipient_invalid")
	if left := names(t, filepath.Dir(o.File)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// part is one file of a forged archive.
type part struct {
	name    string
	content string
	kind    byte
}

// parts reads an archive.
func (p *plant) parts(t testing.TB, file string) (all []part) {
	t.Helper()
	f := must(os.Open(file))(t)
	defer func() { _ = f.Close() }()
	tr := tar.NewReader(must(secrets.Unseal(f, p.identity))(t))
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return all
		}
		ok(t, err)
		all = append(all, part{h.Name, string(must(io.ReadAll(tr))(t)), h.Typeflag})
	}
}

// seal makes a backup from parts, as anybody with the recipient can. The manifest lists the parts,
// unless the parts include a manifest.
func (p *plant) seal(t testing.TB, parts []part, after string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "forged.age")
	f := must(os.Create(file))(t)
	w := must(secrets.Seal(f, []string{p.recipient}))(t)
	tw := tar.NewWriter(w)
	for _, q := range parts {
		h := &tar.Header{Typeflag: q.kind, Name: q.name, Mode: 0o600, Size: int64(len(q.content))}
		if q.kind == tar.TypeSymlink {
			h.Linkname, h.Size = "/etc/passwd", 0
		}
		ok(t, tw.WriteHeader(h))
		if h.Size > 0 {
			_, err := io.WriteString(tw, q.content)
			ok(t, err)
		}
	}
	ok(t, tw.Close())
	_, err := io.WriteString(w, after)
	ok(t, err)
	ok(t, w.Close())
	ok(t, f.Close())
	return file
}

// manifest is a valid manifest, changed.
func manifest(t testing.TB, good []part, change func(m *Manifest)) []part {
	t.Helper()
	var m Manifest
	ok(t, json.Unmarshal([]byte(good[0].content), &m))
	change(&m)
	out := slices.Clone(good)
	out[0].content = string(must(json.Marshal(m))(t))
	return out
}

func TestABackupThatIsNotWhatItSaysIsRefused(t *testing.T) {
	p, other := newPlant(t), newPlant(t)
	good := p.parts(t, p.write(t))
	theirs := p.parts(t, func() string { // of another broker, for this recipient
		q := *other
		q.recipient = p.recipient
		return q.write(t)
	}())
	at := func(parts []part, name string) int {
		return slices.IndexFunc(parts, func(q part) bool { return strings.HasPrefix(q.name, name) })
	}
	add := func(name string, kind byte) []part {
		out := manifest(t, good, func(m *Manifest) {
			m.Files = append(m.Files, File{Path: name, Size: 1, SHA256: "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"}) // of x
		})
		return append(out, part{name, "x", kind})
	}
	for _, tt := range []struct {
		name, code, after string
		parts             []part
	}{
		{name: "nothing", code: "backup_damaged"},
		{name: "no manifest", code: "backup_damaged", parts: good[1:]},
		{name: "a manifest that is none", code: "backup_damaged", parts: append([]part{{manifestName, "{", tar.TypeReg}}, good[1:]...)},
		{name: "a newer form", code: "backup_too_new", parts: manifest(t, good, func(m *Manifest) { m.Format++ })},
		{name: "a path that leads out", code: "backup_damaged", parts: add("secrets/../../escaped", tar.TypeReg)},
		{name: "an absolute path", code: "backup_damaged", parts: add("/tmp/escaped", tar.TypeReg)},
		{name: "a file of nobody's", code: "backup_damaged", parts: add("client.yaml", tar.TypeReg)},
		{name: "a directory below the keys", code: "backup_damaged", parts: add("keys/a/b", tar.TypeReg)},
		{name: "a symlink", code: "backup_damaged", parts: add("secrets/link.age", tar.TypeSymlink)},
		{name: "a file where a directory is", code: "backup_unwritable", parts: add("secrets/maas-sites/x/api-token.age/y", tar.TypeReg)},
		{name: "a file twice", code: "backup_damaged", parts: add(good[1].name, tar.TypeReg)},
		{name: "a file that is not listed", code: "backup_damaged", parts: append(slices.Clone(good), part{"secrets/x.age", "x", tar.TypeReg})},
		{name: "one file less", code: "backup_damaged", parts: good[:len(good)-1]},
		{name: "another order", code: "backup_damaged", parts: append([]part{good[0], good[2], good[1]}, good[3:]...)},
		{name: "another content", code: "backup_damaged", parts: func() []part {
			out := slices.Clone(good)
			i := at(out, "secrets/maas")
			out[i].content = out[i].content[:len(out[i].content)-1] + "~"
			return out
		}()},
		{name: "another size", code: "backup_damaged", parts: manifest(t, good, func(m *Manifest) { m.Files[1].Size++ })},
		{name: "a huge key", code: "backup_damaged", parts: manifest(t, good, func(m *Manifest) { m.Files[1].Size = maxSmall + 1 })},
		{name: "something after its end", code: "backup_damaged", parts: good, after: "#!/bin/sh"},
		{name: "no database", code: "backup_damaged", parts: manifest(t, good, func(m *Manifest) { m.Files = m.Files[1:] })},
		{name: "a database that is none", code: "backup_damaged", parts: func() []part {
			out := manifest(t, good, func(m *Manifest) {
				m.Files[0].Size, m.Files[0].SHA256 = 1, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
			})
			out[1].content = "x"
			return out
		}()},
		{name: "another broker", code: "backup_other_ca", parts: theirs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := p.into(t)
			o.File = p.seal(t, tt.parts, tt.after)
			_, _, err := Restore(t.Context(), o)
			refused(t, err, tt.code)
			if left := names(t, o.DataDir); !slices.Equal(left, []string{LockName}) {
				t.Errorf("left behind: %v", left)
			}
			if left := names(t, filepath.Dir(o.DataDir)); !slices.Equal(left, []string{"restored/" + LockName}) {
				t.Errorf("it wrote outside: %v", left)
			}
		})
	}
}

// A forger with the recipient has the root's certificate, which is public, and not its key.
func TestKeysThatAreNotTheRootsAreRefused(t *testing.T) {
	p, forger := newPlant(t), newPlant(t)
	good := p.parts(t, p.write(t))
	root := func(parts []part) (ring map[string]any, entry any, i int) {
		i = slices.IndexFunc(parts, func(q part) bool { return q.name == "keys/keyring.json" })
		ok(t, json.Unmarshal([]byte(parts[i].content), &ring))
		for _, k := range ring["keys"].([]any) {
			if k.(map[string]any)["use"] == "root" {
				entry = k
			}
		}
		return ring, entry, i
	}
	_, ours, _ := root(good)
	q := *forger
	q.recipient = p.recipient
	theirs := p.parts(t, q.write(t))
	ring, _, i := root(theirs)
	ring["keys"] = append(ring["keys"].([]any), ours)
	theirs[i].content = string(must(json.Marshal(ring))(t))
	theirs = manifest(t, theirs, func(m *Manifest) {
		f := &m.Files[i-1]
		name := filepath.Join(t.TempDir(), "ring")
		ok(t, os.WriteFile(name, []byte(theirs[i].content), 0o600))
		f.Size, f.SHA256, _ = hashFile(name)
	})
	o := p.into(t)
	o.File = p.seal(t, theirs, "")
	_, _, err := Restore(t.Context(), o)
	refused(t, err, "key_mismatch")
	if left := names(t, o.DataDir); !slices.Equal(left, []string{LockName}) {
		t.Errorf("left behind: %v", left)
	}
}

func TestABackupThatWasCutOrChangedIsRefused(t *testing.T) {
	p := newPlant(t)
	raw := must(os.ReadFile(p.write(t)))(t)
	for name, content := range map[string][]byte{
		"cut in its header": raw[:40], "cut in the middle": raw[:len(raw)/2], "cut at a chunk": raw[:200+64*1024], "cut at its end": raw[:len(raw)-1],
		"a bit of its body": flip(raw, len(raw)/2), "a bit of its end": flip(raw, len(raw)-1), "longer": append(slices.Clone(raw), 0), "no backup": []byte("PGDMP"),
	} {
		t.Run(name, func(t *testing.T) {
			o := p.into(t)
			o.File = filepath.Join(t.TempDir(), "b")
			ok(t, os.WriteFile(o.File, content, 0o600))
			_, _, err := Restore(t.Context(), o)
			if code := broker.AsError(err).Code; code != "backup_damaged" && code != "sealed_damaged" {
				t.Errorf("%v", err)
			}
			if left := names(t, o.DataDir); !slices.Equal(left, []string{LockName}) {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func flip(raw []byte, i int) []byte {
	out := slices.Clone(raw)
	out[i] ^= 1
	return out
}

func TestARestoreTakesNothingsPlaceAndNobodysIdentity(t *testing.T) {
	p := newPlant(t)
	file := p.write(t)
	o := p.into(t)
	o.File = file
	ok(t, os.WriteFile(filepath.Join(o.DataDir, "hostler.db"), []byte("somebody's"), 0o600))
	_, _, err := Restore(t.Context(), o)
	refused(t, err, "data_dir_not_empty")
	if got := must(os.ReadFile(filepath.Join(o.DataDir, "hostler.db")))(t); string(got) != "somebody's" {
		t.Error("it was replaced")
	}

	o = p.into(t)
	o.File, o.Identity = file, newPlant(t).identity
	_, _, err = Restore(t.Context(), o)
	refused(t, err, "identity_other")
	o.Identity = p.identity
	ok(t, os.Chmod(p.identity, 0o644))
	_, _, err = Restore(t.Context(), o)
	refused(t, err, "identity_open")
	if left := names(t, o.DataDir); !slices.Equal(left, []string{LockName}) {
		t.Errorf("left behind: %v", left)
	}
}
