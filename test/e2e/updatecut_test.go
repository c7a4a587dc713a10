//go:build e2e && e2e_all

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/qemu"
)

// The moments of an update at which the power is cut, each a shell condition in the guest. The
// guest may see file content that is not on the disk yet. V is the new version.
var cuts = []struct{ name, moment string }{
	{"WhileItIsFetched", `[ -s $L/.unverified-V-*/layer.unverified ]`},
	{"WhileItIsUnpacked", `[ -s $L/.unverified-V-*/hostler-agent.unverified ]`},
	{"WhileItTestsItself", `[ -d $L/.verified-V-* ]`},
	{"OnceItHasItsSlot", `[ -d $L/V ]`},
	{"OnceTheSwitchIsArmed", `grep -q armed $S/state.json`},
	{"OnceTheWatcherRuns", `[ $(systemctl show -P MainPID hostler-agent-watch) -ne 0 ]`},
	{"OnceTheStateIsKept", `[ -d $S/before ]`},
	{"OnceItIsCurrent", `[ $L/../current -ef $L/V ]`},
	{"OnceTheNewVersionRuns", `[ $L/../current -ef $L/V ] && [ /proc/$(systemctl show -P MainPID hostler-agent)/exe -ef $L/V/hostler-agent ]`},
	{"OnceItHasSpokenToTheBroker", `[ $L/../current -ef $L/V ] && [ -s $S/contact ] && grep -q watching $S/state.json`},
	{"WhileItIsProved", `grep -q proving $S/state.json`},
	{"OnceItIsTheGoodOne", `[ $L/../good -ef $L/V ]`},
	{backwards, `grep -q reverting $S/state.json`},
}

// backwards is the cut during an update to a version that ends at once.
const backwards = "WhileItIsPutBack"

// telling reports the moment to this machine over the guest's second serial port.
const telling = `L=/usr/lib/hostler-agent/versions S=/var/lib/hostler-agent/update
exec 3> /dev/ttyS1
until %s; do :; done 2> /dev/null
echo V >&3
`

// bell is the other end of a guest's second serial port.
type bell struct{ net.Listener }

// bell makes a bell before its guest is started.
func (s *site) bell() bell {
	s.t.Helper()
	l, err := net.Listen("unix", s.Path("bell"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	return bell{l}
}

// args are QEMU's arguments for the bell.
func (b bell) args() []string {
	return []string{"-chardev", "socket,id=bell,path=" + b.Addr().String(), "-serial", "chardev:bell"}
}

// answer calls do as soon as the most recently started guest sends the word.
func (b bell) answer(word string, do func() error) (done <-chan error) {
	out := make(chan error, 1)
	go func() {
		c, err := b.Accept()
		if err != nil {
			out <- err
			return
		}
		defer func() { _ = c.Close() }()
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			if strings.TrimSpace(lines.Text()) == word {
				out <- do()
				return
			}
		}
		out <- errors.Join(errors.New("the guest ended without the word "+word), lines.Err())
	}()
	return out
}

// Whenever the power is cut during an update, with all unflushed data lost, the node comes back
// with a working agent. The task's result matches the running version, and each task ordered
// meanwhile runs once.
func TestThePowerGoesAtAnyMomentOfAnUpdate(t *testing.T) {
	s := newSiteOfItsOwn(t)
	s.lasts(45 * time.Minute)
	b := s.bell()
	s.guest = qemu.Start(t, shared.image, qemu.Config{Name: node, CPUs: 1, ReachHost: true, Flushes: true, Args: b.args()})
	if err := settle(s.ctx, s.guest, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.enrol()
	was := strings.Fields(s.root("hostler-agent", "version"))[1]
	rel := s.releases()
	for i, c := range cuts {
		s.part(c.name, func(s *site) {
			r := rel.of(s)
			version := fmt.Sprintf("9.%d.0", i)
			if c.name == backwards {
				r.fault(version, "exit 1")
			} else {
				r.build(version)
			}
			s.put("/root/telling.sh", []byte(strings.ReplaceAll(fmt.Sprintf(telling, c.moment), "V", version)), 0o600)
			s.root("rm", "-f", "/var/lib/hostler-agent/update/contact")
			rung := b.answer(version, s.guest.Kill)
			s.root("systemd-run", "--unit=telling", "--nice=-10", "sh", "/root/telling.sh")
			var behind task
			got, res := r.update(version, 2*time.Minute, func() {
				behind = s.enqueue("node.heartbeat_check", map[string]any{})
				select {
				case err := <-rung:
					if err != nil {
						s.t.Fatal(err)
					}
				case <-time.After(5 * time.Minute):
					s.t.Fatal("that moment never came")
				}
				if err := errors.Join(s.guest.Again(s.ctx), s.guest.WaitSSH(s.ctx)); err != nil {
					s.t.Fatal(err)
				}
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
			r.holds(runs)
			s.t.Logf("%s after %s, %s runs: %s %s", got.Status, c.name, runs, got.Code, got.Message)
			was = runs
		})
	}
	s.hostler("audit", "verify")
}
