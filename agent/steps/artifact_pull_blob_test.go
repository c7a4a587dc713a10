package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/download"
	"github.com/hostler/hostler/agent/download/downloadtest"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// kept is a checkpoint in memory. kill, if set, is the error of the next save after as many as alive.
type kept struct {
	raw   []byte
	kill  error
	alive int
}

func (k *kept) Load() ([]byte, error) { return k.raw, nil }

func (k *kept) Save(raw []byte) error {
	if k.kill != nil {
		if k.alive == 0 {
			return k.kill
		}
		k.alive--
	}
	k.raw = bytes.Clone(raw)
	return nil
}

// blob is a step artifact.pull_blob on a machine in a directory, with its source.
type blob struct {
	*downloadtest.Source
	t     *testing.T
	host  *host.Host
	dir   string
	args  Args
	keeps *kept
	most  int64
}

const (
	blobName = "/var/lib/models/llama/weights.bin"
	blobSize = 3 << 20
)

func newBlob(t *testing.T, from, source string) *blob {
	t.Helper()
	b := &blob{Source: downloadtest.New(t, downloadtest.Content(1, blobSize)), t: t, keeps: &kept{}, most: 1 << 30}
	b.host, b.dir = hosttest.Box(t)
	b.host.Now = time.Now
	b.host.Downloads = download.Over(b.Transport())
	b.args = Args{"from": from, "source": source, "digest": downloadtest.Digest(b.Raw), "root": "/var/lib/models", "name": "llama/weights.bin"}
	return b
}

// step is the step after a restart of the agent: nothing is left of an earlier one but checkpoint and disk.
func (b *blob) step() *Step {
	return &Step{
		Plan: &taskcatalog.OperationPlan{Artifacts: &taskcatalog.PlanArtifacts{MaxBytes: b.most}},
		Host: b.host, Args: b.args, Checkpoint: b.keeps, Progress: func(int, string) {},
	}
}

// do carries the step out, and waits until the source rests.
func (b *blob) do() (Proof, error) {
	b.t.Helper()
	defer synctest.Wait()
	kind, ok := Lookup("artifact.pull_blob")
	if !ok {
		b.t.Fatal("there is no such kind")
	}
	return kind.Do(b.t.Context(), b.step())
}

func (b *blob) looks(want bool) {
	b.t.Helper()
	kind, _ := Lookup("artifact.pull_blob")
	if _, done, err := kind.Look(b.t.Context(), b.step()); err != nil || done != want {
		b.t.Errorf("a look says %v, %v", done, err)
	}
}

func (b *blob) path(name string) string { return filepath.Join(b.dir, name) }

// brought checks the proof, the file, and that nothing else lies beside it.
func (b *blob) brought(p Proof, err error) {
	b.t.Helper()
	if err != nil || p.Output != blobName || p.Digest != b.args["digest"] || p.Bytes != int64(len(b.Raw)) {
		b.t.Fatalf("%+v %v\n%q", p, err, b.Asked)
	}
	got, err := os.ReadFile(b.path(blobName))
	info, _ := os.Lstat(b.path(blobName))
	if err != nil || !bytes.Equal(got, b.Raw) || info.Mode() != 0o644 {
		b.t.Fatalf("the file has mode %s and %d bytes: %v", info.Mode(), len(got), err)
	}
	b.alone(1)
}

// alone checks the number of entries beside the file.
func (b *blob) alone(want int) {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Dir(b.path(blobName)))
	if err != nil || len(entries) != want {
		b.t.Errorf("%v %v", entries, err)
	}
}

func secretOf(t *testing.T, mint func() taskcatalog.BlobCredential) *Secret {
	t.Helper()
	encode := func(context.Context) ([]byte, error) { return json.Marshal(mint()) }
	raw, err := encode(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return NewSecret(raw, encode)
}

func TestAFileIsPulledAndProvenByItsContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlob(t, "https_signed", "models.example:8443/public/weights.bin")
		b.looks(false)
		p, err := b.do()
		b.brought(p, err)
		b.looks(true)
		if b.Asked[0] != "GET models.example:8443/public/weights.bin  " {
			t.Errorf("%q", b.Asked)
		}
		// The presence of a file proves nothing.
		if err := os.WriteFile(b.path(blobName), make([]byte, blobSize), 0o644); err != nil {
			t.Fatal(err)
		}
		b.looks(false)
		p, err = b.do()
		b.brought(p, err)
	})
}

func TestASignedAddressThatExpiresInTheMiddleIsMintedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlob(t, "s3", "models/llama/weights.bin")
		minted := 0
		b.args["credential"] = secretOf(t, func() taskcatalog.BlobCredential {
			minted++
			return taskcatalog.BlobCredential{URLs: map[string]string{
				"models/llama/weights.bin": "https://s3.site.example/models/llama/weights.bin?X-Amz-Signature=" + strings.Repeat("n", minted),
			}}
		})
		b.Always = func(w http.ResponseWriter, r *http.Request) {
			switch n := len(r.URL.Query().Get("X-Amz-Signature")); {
			case n == 1 && r.Header.Get("Range") == "":
				b.CutAfter(1<<20)(w, r)
			case n == 1:
				w.WriteHeader(http.StatusForbidden)
			default:
				b.Serve(w, r)
			}
		}
		p, err := b.do()
		b.brought(p, err)
		if minted != 2 || b.Sent != blobSize {
			t.Errorf("%d credentials, %d bytes", minted, b.Sent)
		}
		if strings.Contains(string(b.keeps.raw), "Signature") {
			t.Errorf("the checkpoint has the credential: %s", b.keeps.raw)
		}
	})
}

func TestACredentialIsRenewedShortlyBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlob(t, "huggingface", "meta/llama@main/weights.bin")
		minted := 0
		b.args["credential"] = secretOf(t, func() taskcatalog.BlobCredential {
			minted++
			return taskcatalog.BlobCredential{Authorization: "Bearer hf_" + strings.Repeat("x", minted), ExpiresAt: time.Now().Add(10 * time.Second)}
		})
		p, err := b.do()
		b.brought(p, err)
		if minted != 2 || b.Headers[0].Get("Authorization") != "Bearer hf_xx" || b.Asked[0] != "GET huggingface.co/meta/llama/resolve/main/weights.bin  " {
			t.Errorf("%d credentials, %q, %v", minted, b.Asked, b.Headers)
		}
	})
}

// Google unpacks what is stored packed, unless the client takes packed bytes.
func TestGoogleIsAskedForTheStoredBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlob(t, "gcs", "models/a b/weights.bin")
		p, err := b.do()
		b.brought(p, err)
		if b.Headers[0].Get("Accept-Encoding") != "gzip" || b.Asked[0] != "GET storage.googleapis.com/models/a b/weights.bin  " {
			t.Errorf("%q %v", b.Asked, b.Headers)
		}
	})
}

// The agent stops while it pulls, and the next task goes on.
func TestAPullGoesOnInALaterTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlob(t, "https_signed", "models.example/weights.bin")
		stopped := errors.New("the agent stopped")
		b.Faults = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			b.CutAfter(1<<20)(w, r)
		}, func(_ http.ResponseWriter, r *http.Request) { b.keeps.kill = stopped; <-r.Context().Done() }, b.CutAfter(1 << 20)}
		if _, err := b.do(); !errors.Is(err, stopped) {
			t.Fatal(err)
		}
		b.looks(false)
		b.keeps.kill, b.Faults = nil, nil
		sent := b.Sent
		p, err := b.do()
		b.brought(p, err)
		if again := b.Sent - sent; again != blobSize-1<<20 { // the last checkpoint that was saved had 1 MiB
			t.Errorf("%d bytes of %d", again, blobSize)
		}
	})
}

func TestAWrongContentLeavesNothing(t *testing.T) {
	for code, spoil := range map[taskcatalog.Code]func(b *blob){
		taskcatalog.CodeDigestMismatch: func(b *blob) { b.args["digest"] = downloadtest.Digest([]byte("other")) },
		taskcatalog.CodeArtifactTooBig: func(b *blob) { b.most = 1 << 20 },
		taskcatalog.CodeSourceRefused:  func(b *blob) { b.Always = downloadtest.Status(404) },
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBlob(t, "https_signed", "models.example/weights.bin")
			spoil(b)
			if _, err := b.do(); taskcatalog.CodeOf(err, "") != code || !Final(code) {
				t.Errorf("%v, want %s", err, code)
			}
			b.alone(0)
		})
	}
}

func TestNoLinkLeadsAPullAway(t *testing.T) {
	beside := filepath.Dir(blobName)
	work := target{name: blobName}.work()
	for name, c := range map[string]struct {
		plant func(b *blob) error
		code  taskcatalog.Code // empty: the pull succeeds, and replaces what was planted
	}{
		"the file is a link": {func(b *blob) error { return os.Symlink(b.path("/etc/passwd"), b.path(blobName)) }, ""},
		"the work is a link": {func(b *blob) error { return os.Symlink(b.path("/etc/passwd"), b.path(work)) }, ""},
		"the work is another name of a file": {func(b *blob) error {
			return errors.Join(os.Chmod(b.path("/etc/passwd"), 0o600), os.Link(b.path("/etc/passwd"), b.path(work)))
		}, ""},
		"the work is a FIFO": {func(b *blob) error { return unix.Mkfifo(b.path(work), 0o600) }, ""},
		"the work may be written by others": {func(b *blob) error {
			return errors.Join(os.WriteFile(b.path(work), nil, 0o600), os.Chmod(b.path(work), 0o666))
		}, ""},
		"the directory is a link": {func(b *blob) error {
			return errors.Join(os.Remove(b.path(beside)), os.Symlink(b.path("/etc"), b.path(beside)))
		}, taskcatalog.CodePathRefused},
		"the root is a link": {func(b *blob) error {
			return errors.Join(os.RemoveAll(b.path("/var/lib/models")), os.Symlink(b.path("/etc"), b.path("/var/lib/models")))
		}, taskcatalog.CodePathRefused},
		"the directory is a file": {func(b *blob) error {
			return errors.Join(os.Remove(b.path(beside)), os.WriteFile(b.path(beside), nil, 0o644))
		}, taskcatalog.CodePathRefused},
		"the directory is a link out of itself": {func(b *blob) error {
			return errors.Join(os.Remove(b.path(beside)), os.Symlink("../../../etc", b.path(beside)))
		}, taskcatalog.CodePathRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBlob(t, "https_signed", "models.example/weights.bin")
				if err := errors.Join(os.MkdirAll(b.path(beside), 0o755), c.plant(b)); err != nil {
					t.Fatal(err)
				}
				before, _ := os.ReadFile(b.path("/etc/passwd"))
				p, err := b.do()
				if c.code == "" {
					b.brought(p, err)
				} else if taskcatalog.CodeOf(err, "") != c.code {
					t.Errorf("%v", err)
				}
				after, err := os.ReadFile(b.path("/etc/passwd"))
				if err != nil || !bytes.Equal(before, after) {
					t.Errorf("a file elsewhere has changed: %v", err)
				}
				if entries, _ := os.ReadDir(b.path("/etc")); len(entries) != 6 {
					t.Errorf("there are files elsewhere: %v", entries)
				}
			})
		})
	}
}

// Whoever may write the directory puts another file in the place of the work.
func TestAFileThatWasSwappedWhileItCameIsNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlob(t, "https_signed", "models.example/weights.bin")
		if err := errors.Join(os.MkdirAll(filepath.Dir(b.path(blobName)), 0o755), os.WriteFile(b.path(blobName), []byte("the former"), 0o644)); err != nil {
			t.Fatal(err)
		}
		b.Faults = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			work := b.path(target{name: blobName}.work())
			if err := errors.Join(os.Rename(work, work+".away"), os.WriteFile(work, []byte("planted"), 0o600)); err != nil {
				t.Error(err)
			}
			b.Serve(w, r)
		}}
		if _, err := b.do(); err == nil {
			t.Error("it was published")
		}
		if got, err := os.ReadFile(b.path(blobName)); string(got) != "the former" {
			t.Errorf("%q %v", got, err)
		}
	})
}

// Somebody holds a file open for writing under the name of the work.
func TestNobodyElseCanWriteTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBlob(t, "https_signed", "models.example/weights.bin")
		work := b.path(target{name: blobName}.work())
		if err := errors.Join(os.MkdirAll(filepath.Dir(work), 0o755), os.WriteFile(work, nil, 0o600), os.Chmod(work, 0o666)); err != nil {
			t.Fatal(err)
		}
		planted, err := os.OpenFile(work, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer planted.Close()
		p, err := b.do()
		if _, err := planted.WriteAt([]byte("changed"), 0); err != nil {
			t.Fatal(err)
		}
		b.brought(p, err)
	})
}
