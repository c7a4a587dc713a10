package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// A profile compiled into the agent may name a program forbidden to sets: only this program, by its
// own name, and not the target of a link.
func TestAProgramOfTheAgentsOwnIsThatOneAlone(t *testing.T) {
	own := profiles.DiskTools()["nvme_sanitize_log"]
	args := map[string]any{"controller": "/dev/nvme0"}
	raw, err := os.ReadFile("/usr/bin/true") // never this test: it would run itself
	ok(t, err)
	for _, c := range []struct {
		name, leads string // a link leads there; "" for the program itself
		own         bool
		code        taskcatalog.Code
	}{
		{"itself", "", true, ""},
		{"to another program that may run", "other", true, ""},
		{"to a version of it", "nvme2.11", true, ""},
		{"to a version of another", "python3.11", true, CodeExecutableRefused},
		{"to a shell", "bash", true, CodeExecutableRefused},
		{"to another that changes disks", "blkdiscard", true, CodeExecutableRefused},
		{"of a set", "", false, CodeExecutableRefused},
	} {
		r, dir := box(t)
		ok(t, os.MkdirAll(filepath.Join(dir, "usr/sbin"), 0o755))
		name := "nvme"
		if c.leads != "" {
			ok(t, os.Symlink(c.leads, filepath.Join(dir, "usr/sbin/nvme")))
			name = c.leads
		}
		ok(t, os.WriteFile(filepath.Join(dir, "usr/sbin", name), raw, 0o755))
		p := own
		if !c.own {
			raw := profiles.CommandProfile{ID: own.ID, Command: own.Command, BaseArgs: own.BaseArgs, ArgSchema: own.ArgSchema, User: own.User, TimeoutSeconds: 60}
			p = &raw
		}
		_, err := r.Run(t.Context(), p, args)
		if got := taskcatalog.CodeOf(err, ""); got != c.code {
			t.Errorf("%s: %v (%s), want %s", c.name, err, got, c.code)
		}
	}
}
