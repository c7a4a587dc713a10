package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// process puts a process into /proc of a box.
func process(t *testing.T, dir string, pid int, uid uint32, exe, cgroup, netns string) {
	t.Helper()
	own := fmt.Sprintf("proc/%d/", pid)
	put(t, dir, own+"stat", fmt.Sprintf("%d (x) S 1 %d %d 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", pid, pid, pid))
	put(t, dir, own+"status", fmt.Sprintf("Name:\tx\nUid:\t%d\t%d\t%d\t%d\n", uid, uid, uid, uid))
	put(t, dir, own+"cgroup", "0::"+cgroup+"\n")
	ok(t, os.MkdirAll(filepath.Join(dir, own, "ns"), 0o755))
	ok(t, os.Symlink(exe, filepath.Join(dir, own, "exe")))
	ok(t, os.Symlink(netns, filepath.Join(dir, own, "ns/net")))
}

// A cleanup ends no process, so it cannot free a namespace held by a process.
func TestANamespaceThatAProcessHoldsGoesWithItsOwner(t *testing.T) {
	h, dir := used(t)
	ok(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 20001}))
	process(t, dir, 70, 20001, "/usr/bin/sleep", "/user.slice/x.scope", "net:[70]")
	process(t, dir, 71, 1000, "/usr/bin/sleep", "/user.slice/y.scope", "net:[71]")
	items, err := lookNamespaces(t.Context(), newLook(h, &taskcatalog.Baseline{}))
	ok(t, err)
	next := map[string]string{}
	for _, it := range items {
		next[it.finding.Subject] = it.finding.NextAction
	}
	if len(next) != 2 || next["net:[70]"] != taskcatalog.ActionRevokeUser || next["net:[71]"] != taskcatalog.ActionReimage {
		t.Errorf("to do: %v", next)
	}
}
