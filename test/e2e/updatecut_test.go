//go:build e2e && e2e_all

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// The moments of an update at which the power goes, each as the shell in the guest tells
// it. V is the version that is being put on the node.
var cuts = []struct{ name, moment string }{
	{"WhileItIsFetched", `[ -s $L/.unverified-V-*/layer.unverified ]`},
	{"WhileItIsUnpacked", `[ -s $L/.unverified-V-*/hostler-agent.unverified ]`},
	{"WhileItTestsItself", `[ -d $L/.verified-V-* ]`},
	{"OnceItHasItsSlot", `[ -d $L/V ]`},
	{"OnceTheSwitchIsArmed", `grep -q armed $S/state.json`},
	{"OnceTheStateIsKept", `[ -d $S/before ]`},
	{"OnceItIsCurrent", `[ $L/../current -ef $L/V ]`},
	{"OnceTheNewVersionRuns", `[ $L/../current -ef $L/V ] && [ /proc/$(systemctl show -P MainPID hostler-agent)/exe -ef $L/V/hostler-agent ]`},
	{"OnceItHasSpokenToTheBroker", `[ $L/../current -ef $L/V ] && [ -s $S/contact ] && grep -q watching $S/state.json`},
	{"WhileItIsProved", `grep -q proving $S/state.json`},
	{"OnceItIsTheGoodOne", `[ $L/../good -ef $L/V ]`},
}

const cutting = `L=/usr/lib/hostler-agent/versions S=/var/lib/hostler-agent/update
until %s; do :; done 2> /dev/null
echo b > /proc/sysrq-trigger
`

// Wherever in an update the power goes, the node comes back with an agent that works;
// what the task says of it is what runs, and what was asked for meanwhile is done once.
func TestThePowerGoesAtAnyMomentOfAnUpdate(t *testing.T) {
	s := enrolledForLong(t)
	first := strings.Fields(s.root("hostler-agent", "version"))[1]
	rel := s.releases()
	was := first
	for i, c := range append(cuts, struct{ name, moment string }{"WhileItIsPutBack", `grep -q reverting $S/state.json`}) {
		s.part(c.name, func(s *site) {
			r := rel.of(s)
			version := fmt.Sprintf("9.%d.0", i)
			if bad := c.name == "WhileItIsPutBack"; bad {
				r.fault(version, "exit 1")
			} else {
				r.build(version)
			}
			s.put("/root/cut.sh", fmt.Appendf(nil, cutting, strings.ReplaceAll(c.moment, "V", version)), 0o600)
			s.root("rm", "-f", "/var/lib/hostler-agent/update/contact")
			s.root("sync")
			before := s.bootID()
			s.root("systemd-run", "--unit=cut", "--nice=-10", "sh", "/root/cut.sh")
			var behind task
			got, res := r.update(version, 2*time.Minute, func() {
				behind = s.enqueue("node.heartbeat_check", map[string]any{})
				s.bootsAgain(before)
			})
			runs := was
			switch {
			case got.Status == "succeeded" && res.Outcome == taskcatalog.UpdateConfirmed:
				runs = version
			case got.Status == "failed" && (res.Outcome == taskcatalog.UpdateRolledBack || got.Code == "interrupted"):
			default:
				s.t.Errorf("the update ended %+v %+v", got, res)
			}
			if end := s.end(behind.ID); end.Status != "succeeded" {
				s.t.Errorf("the task behind it ended %+v", end)
			}
			r.runs(runs)
			s.waitNode("active")
			s.t.Logf("%s after %s, %s runs: %s %s", got.Status, c.name, runs, got.Code, got.Message)
			was = runs
		})
	}
	s.hostler("audit", "verify")
}
