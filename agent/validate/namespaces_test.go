package validate

import (
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

// A cleanup ends no process, so it cannot free a namespace held by a process.
func TestANamespaceThatAProcessHoldsGoesWithItsOwner(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.OK(t, h.Accounts.Put(host.Account{AllocationID: "a-1", Username: "alice", UID: 20001}))
	hosttest.Process(t, dir, 70, 20001, "/usr/bin/sleep", "/user.slice/x.scope", "net:[70]")
	hosttest.Process(t, dir, 71, 1000, "/usr/bin/sleep", "/user.slice/y.scope", "net:[71]")
	items, err := lookNamespaces(t.Context(), newLook(h, &taskcatalog.Baseline{}))
	hosttest.OK(t, err)
	next := map[string]string{}
	for _, it := range items {
		next[it.finding.Subject] = it.finding.NextAction
	}
	if len(next) != 2 || next["net:[70]"] != taskcatalog.ActionRevokeUser || next["net:[71]"] != taskcatalog.ActionReimage {
		t.Errorf("to do: %v", next)
	}
}
