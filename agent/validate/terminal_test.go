package validate

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/terminal/unit"
	"github.com/hostler/hostler/taskcatalog"
)

// A terminal session is never part of a clean node, whatever baseline and policy contain.
func TestATerminalThatIsOpenIsNotClean(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "proc/uptime", "900000.00 1.00\n")
	const sessionID = "ts-7k2m4q6s"
	const slice = "/hostler.slice/hostler-terminal.slice/"
	hosttest.Process(t, dir, 60, 0, "/usr/bin/hostler-agent", slice+unit.Name(sessionID), "net:[4026531840]")
	hosttest.Process(t, dir, 61, 1000, "/usr/bin/bash", slice+unit.Name(sessionID), "net:[4026531840]")
	v := newLook(h, &taskcatalog.Baseline{Processes: []string{unit.Name(sessionID), "/usr/bin/bash in " + unit.Name(sessionID)}})
	v.policy.KnownProcesses = []string{"bash", "/usr/bin/hostler-agent"}
	for _, exe := range []string{"/usr/bin/hostler-agent", "/usr/bin/bash"} {
		v.owned[pathHash(exe)] = struct{}{}
	}
	items, err := lookProcesses(t.Context(), v)
	hosttest.OK(t, err)
	found := 0
	for _, it := range items {
		if it.key == unit.Name(sessionID) && !v.has(it) && strings.Contains(it.finding.Detail, "terminal session") {
			found++
		}
	}
	if found != 2 {
		t.Errorf("of two processes %d are found: %+v", found, items)
	}
}
