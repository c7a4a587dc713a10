package steps

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

func fileArgs(with Args) Args {
	args := Args{
		"root": "/etc/demo", "name": "a/b.conf", "template": "port={{.port}} {{.on}} {{.name}}\n",
		"values": map[string]any{"port": int64(8080), "on": true, "name": "x"}, "mode": "0640",
	}
	for k, v := range with {
		args[k] = v
	}
	return args
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("files of other owners need root")
	}
}

func TestAFileIsRenderedWholeWithOwnerAndMode(t *testing.T) {
	needsRoot(t)
	h, dir := hosttest.Box(t)
	s := aStep(t, h, "file.render", fileArgs(Args{"owner": "ubuntu"}))
	if look(t, s) {
		t.Error("a file that is not there is done")
	}
	proof, err := do(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := hosttest.Read(t, dir, "etc/demo/a/b.conf"); got != "port=8080 true x\n" || proof.Output != "/etc/demo/a/b.conf" || proof.Bytes != int64(len(got)) {
		t.Errorf("%q, %+v", got, proof)
	}
	info, err := os.Stat(filepath.Join(dir, "etc/demo/a/b.conf"))
	hosttest.OK(t, err)
	if st := info.Sys().(*syscall.Stat_t); info.Mode() != 0o640 || st.Uid != 1000 || st.Gid != 1000 {
		t.Errorf("%v of %d:%d", info.Mode(), st.Uid, st.Gid)
	}
	left, err := filepath.Glob(filepath.Join(dir, "etc/demo/a/.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("beside it: %q, %v", left, err)
	}
	if !look(t, s) {
		t.Error("the file is there, and not done")
	}
}

// Content, owner and mode are the proof; that a file lies there is none.
func TestAFileOfAnotherContentOwnerOrModeIsNotDone(t *testing.T) {
	needsRoot(t)
	h, dir := hosttest.Box(t)
	s := aStep(t, h, "file.render", fileArgs(nil))
	name := filepath.Join(dir, "etc/demo/a/b.conf")
	for what, spoil := range map[string]func() error{
		"content": func() error { return os.WriteFile(name, []byte("port=8081 true x\n"), 0o640) },
		"length":  func() error { return os.WriteFile(name, []byte("port=8080 true x\nmore\n"), 0o640) },
		"mode":    func() error { return os.Chmod(name, 0o644) },
		"set-uid": func() error { return os.Chmod(name, 0o640|os.ModeSetuid) },
		"owner":   func() error { return os.Chown(name, 1000, 0) },
		"group":   func() error { return os.Chown(name, 0, 1000) },
		"no file": func() error { return os.Remove(name) },
	} {
		_, err := do(t, s)
		hosttest.OK(t, err)
		hosttest.OK(t, spoil())
		if look(t, s) {
			t.Errorf("another %s is done", what)
		}
	}
	// What a crash leaves of the write is replaced.
	sum := sha256.Sum256([]byte("b.conf"))
	left := "etc/demo/a/.hostler-new-" + hex.EncodeToString(sum[:8])
	hosttest.Put(t, dir, left, "half a file")
	if _, err := do(t, s); err != nil || !look(t, s) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, left)); err == nil {
		t.Error("what a crash left is there")
	}
}

func TestAFileNeverLeavesItsRoot(t *testing.T) {
	needsRoot(t)
	for _, c := range []struct {
		name string
		set  func(dir string) error
		args Args
	}{
		{"a link below the root", func(dir string) error {
			return os.Symlink("/var/target", filepath.Join(dir, "etc/demo/a"))
		}, nil},
		{"a link that stays below the root", func(dir string) error {
			hosttest.Put(t, dir, "etc/demo/b/b.conf", "port=8080 true x\n")
			return errors.Join(os.Chmod(filepath.Join(dir, "etc/demo/b/b.conf"), 0o640), os.Symlink("b", filepath.Join(dir, "etc/demo/a")))
		}, nil},
		{"the root is a link", func(dir string) error {
			return os.Symlink("/var/target", filepath.Join(dir, "etc/linked"))
		}, Args{"root": "/etc/linked"}},
		{"above the root is a link", func(dir string) error {
			return os.Symlink("/var/target", filepath.Join(dir, "etc/linked"))
		}, Args{"root": "/etc/linked/demo"}},
		{"a file in the place of a directory", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "etc/demo/a"), nil, 0o644)
		}, nil},
		{"a directory in the place of the file", func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "etc/demo/a/b.conf"), 0o755)
		}, nil},
		{"..", nil, Args{"name": "../../var/target/b.conf"}},
	} {
		h, dir := hosttest.Box(t)
		hosttest.Put(t, dir, "etc/demo/.keep", "")
		hosttest.Put(t, dir, "var/target/b.conf", "port=8080 true x\n")
		hosttest.OK(t, os.Chmod(filepath.Join(dir, "var/target/b.conf"), 0o640))
		if c.set != nil {
			hosttest.OK(t, c.set(dir))
		}
		s := aStep(t, h, "file.render", fileArgs(c.args))
		if look(t, s) {
			t.Errorf("%s: done by another file", c.name)
		}
		s.Args["values"] = map[string]any{"port": int64(1), "on": true, "name": "x"}
		if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodePathRefused {
			t.Errorf("%s: %v, want %s", c.name, err, taskcatalog.CodePathRefused)
		}
		if got := hosttest.Read(t, dir, "var/target/b.conf"); got != "port=8080 true x\n" {
			t.Errorf("%s: the file outside now has %q", c.name, got)
		}
	}
}

// A link in the place of the file itself is replaced, and its target stays as it is.
func TestALinkInThePlaceOfTheFileIsReplaced(t *testing.T) {
	needsRoot(t)
	h, dir := hosttest.Box(t)
	hosttest.Put(t, dir, "etc/demo/a/.keep", "")
	hosttest.Put(t, dir, "var/target", "of another")
	hosttest.OK(t, os.Symlink(filepath.Join(dir, "var/target"), filepath.Join(dir, "etc/demo/a/b.conf")))
	s := aStep(t, h, "file.render", fileArgs(nil))
	if look(t, s) {
		t.Error("a link is done")
	}
	_, err := do(t, s)
	hosttest.OK(t, err)
	if got := hosttest.Read(t, dir, "var/target"); got != "of another" || !look(t, s) {
		t.Errorf("the target has %q", got)
	}
}

// A mount below the root leads elsewhere: nothing is written through it.
func TestAMountBelowTheRootIsNotCrossed(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	for _, d := range []string{"/etc/demo/a", "/tmp", "/target"} {
		hosttest.OK(t, os.MkdirAll(d, 0o755))
	}
	hosttest.OK(t, unix.Mount("/target", "/etc/demo/a", "", unix.MS_BIND, ""))
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	defer func() { _ = m.Close() }()
	h, _ := hosttest.Box(t)
	h.Machine = m
	s := aStep(t, h, "file.render", fileArgs(nil))
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodePathRefused {
		t.Errorf("a file behind a mount: %v, want %s", err, taskcatalog.CodePathRefused)
	}
	if names, err := os.ReadDir("/target"); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	hosttest.OK(t, os.WriteFile("/target/b.conf", []byte("port=8080 true x\n"), 0o640))
	if look(t, s) {
		t.Error("done by a file of another mount")
	}
}

func TestARenderedFileIsBounded(t *testing.T) {
	h, _ := hosttest.Box(t)
	big := strings.Repeat("x", 1024)
	values := map[string]any{"v": big}
	s := aStep(t, h, "file.render", fileArgs(Args{"values": values, "template": strings.Repeat("{{.v}}", 1025)}))
	if _, err := do(t, s); taskcatalog.CodeOf(err, "") != taskcatalog.CodePlanInvalid {
		t.Error(err)
	}
}

func TestATemplateNamesValuesAndNothingElse(t *testing.T) {
	for _, bad := range []string{
		"{{.a.b}}", "{{printf .a}}", "{{.a | html}}", "{{if .a}}x{{end}}", "{{range .a}}x{{end}}", "{{with .a}}x{{end}}",
		`{{define "x"}}y{{end}}`, `{{template "x"}}`, "{{$x := .a}}", "{{.}}", "{{.other}}", "{{call .a}}", `{{"text"}}`, "{{.a", "{{(.a)}}",
		"{{block \"x\" .}}y{{end}}", "{{break}}", "{{index .a 0}}",
	} {
		if err := checkTemplate(&taskcatalog.PlannedStep{With: map[string]taskcatalog.StepValue{
			"template": {Literal: bad}, "values": {Table: map[string]taskcatalog.StepValue{"a": {Literal: "x"}}},
		}}); err == nil {
			t.Errorf("%s is a template", bad)
		}
	}
}
