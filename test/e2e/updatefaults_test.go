//go:build e2e && e2e_all

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
)

// silentMost is the time, in seconds of watching, by which a watcher that does not ask the broker
// would have rolled back: a window of 30, 15 until its first question, 150 for which the broker
// answers, and a minute.
const silentMost = 30 + 15 + 150 + 60

// The cases that CI's own case (TestANodeUpdatesItself) leaves out.
func TestWhateverAnUpdateDoesWrongItIsPutBack(t *testing.T) {
	s := enrolled(t)
	s.lasts(40 * time.Minute)
	first := strings.Fields(s.root("hostler-agent", "version"))[1]
	s.part("AGoodUpdate", func(s *site) {
		r := s.releases()
		r.build("9.0.0")
		got, res := r.update("9.0.0", time.Minute, func() {})
		if got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed || res.FromVersion != first || res.ToVersion != "9.0.0" {
			s.t.Fatalf("%+v %+v", got, res)
		}
		r.holds("9.0.0")
		s.t.Logf("switched in %.1f s", res.SwitchSeconds)
		for i, c := range []struct {
			name, does string
			code       taskcatalog.Code
			within     float64
		}{
			// The program reports ready and then nothing more: systemd's watchdog ends it, twice.
			{"ItHangs", "/usr/bin/systemd-notify --ready; exec sleep infinity", selfupdate.CodeCrashLoop, 30},
			{"ItNeverNotifies", "exec sleep infinity", selfupdate.CodeNotReady, 150},
			{"ItCannotReachTheBroker", "HTTPS_PROXY=http://127.0.0.1:9 exec /usr/lib/hostler-agent/versions/9.0.0/hostler-agent run", selfupdate.CodeNoContact, 240},
			{"ItDamagesItsState", "echo damaged > /var/lib/hostler-agent/ledger.db; exit 1", selfupdate.CodeCrashLoop, 15},
			{"ItDamagesItsIdentity", "echo damaged | tee /var/lib/hostler-agent/identity.json > /var/lib/hostler-agent/rotate.json; exit 1", selfupdate.CodeCrashLoop, 15},
			{"ItDamagesWhatWasDecided", "echo damaged > /var/lib/hostler-agent/update/state.json; exit 1", selfupdate.CodeStateDamaged, 30},
		} {
			s.part(c.name, func(s *site) {
				r := r.of(s)
				version := fmt.Sprintf("9.1.%d", i)
				r.fault(version, c.does)
				got, res := r.update(version, 30*time.Second, func() {})
				if got.Status != "failed" || taskcatalog.Code(got.Code) != c.code || res.Outcome != taskcatalog.UpdateRolledBack {
					s.t.Fatalf("%+v %+v", got, res)
				}
				if res.SwitchSeconds > c.within {
					s.t.Errorf("it took %.1f s", res.SwitchSeconds)
				}
				s.t.Logf("put back in %.1f s", res.SwitchSeconds)
				if again, _ := r.update(version, 30*time.Second, func() {}); taskcatalog.Code(again.Code) != selfupdate.CodePinned {
					s.t.Errorf("once more: %+v", again)
				}
				r.holds("9.0.0")
			})
		}
		s.part("TheBrokerIsAwayForLongerThanTheWindow", func(s *site) {
			r := r.of(s)
			r.build("9.2.0")
			got, res := r.update("9.2.0", 30*time.Second, func() {
				err := s.Wait(s.ctx, "the new version to run", func() error {
					if out := s.root("readlink", "/usr/lib/hostler-agent/current"); !strings.Contains(out, "9.2.0") {
						return fmt.Errorf("current is %s", out)
					}
					return s.KillBroker()
				})
				if err != nil {
					s.t.Fatal(err)
				}
				err = s.Wait(s.ctx, "the outage to last for longer than a version that is silent would", func() error {
					var seen struct {
						Trial *selfupdate.Trial `json:"trial"`
					}
					if err := json.Unmarshal([]byte(s.root("hostler-agent", "update", "show", "-o", "json")), &seen); err != nil {
						return err
					}
					if seen.Trial == nil {
						s.t.Fatal("the trial ended while the broker was away")
					}
					if seen.Trial.WatchedSeconds < silentMost {
						return fmt.Errorf("it was watched for %d s", seen.Trial.WatchedSeconds)
					}
					return nil
				})
				if err != nil {
					s.t.Fatal(err)
				}
				if err := s.StartBroker(s.ctx); err != nil {
					s.t.Fatal(err)
				}
			})
			if got.Status != "succeeded" || res.Outcome != taskcatalog.UpdateConfirmed {
				s.t.Fatalf("%+v %+v", got, res)
			}
			r.holds("9.2.0")
		})
	})
	s.hostler("audit", "verify")
}
