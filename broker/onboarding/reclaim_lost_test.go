package onboarding_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

// A region carries a release out late, after no answer came or the broker died. The late release
// never hits the redeployed machine.
func TestAReleaseThatIsCarriedOutLateMeetsNoNewSystem(t *testing.T) {
	for _, dies := range []bool{false, true} {
		for _, carried := range []bool{false, true} { // at once as well
			for _, after := range []time.Duration{20 * time.Second, 70 * time.Second, 150 * time.Second} {
				t.Run(fmt.Sprintf("the broker dies: %v, carried out at once: %v, late after %v", dies, carried, after), func(t *testing.T) {
					releasedLate(t, dies, carried, after)
				})
			}
		}
	}
}

func releasedLate(t *testing.T, dies, carried bool, after time.Duration) {
	w := newWorld(t, "3.6")
	w.region.Timing = maassim.Usual.Faster(20) // the machine would be redeployed within a minute
	w.profile.Policy.HardwareSyncInterval = "1m"
	id := w.node1(nil)
	var kept *http.Request
	var given time.Time
	lost, done := false, false
	w.guard = guardFunc(func(req *http.Request) (*http.Response, error) {
		if kept != nil || req.URL.Query().Get("op") != "release" {
			return w.region.RoundTripper().RoundTrip(req)
		}
		kept = req.Clone(ctx)
		req.Body, kept.Body = twice(t, req.Body)
		if carried {
			now := req.Clone(ctx)
			req.Body, now.Body = twice(t, req.Body)
			now.Header.Set("Authorization", strings.Replace(req.Header.Get("Authorization"), `oauth_nonce="`, `oauth_nonce="once more`, 1))
			if _, err := w.region.RoundTripper().RoundTrip(now); err != nil {
				t.Fatal(err)
			}
		}
		if lost = dies; !dies {
			w.clock.Advance(time.Minute)
		}
		given = w.clock.Now()
		return nil, io.ErrUnexpectedEOF
	})
	w.lossy.Fate = func(int) chaintest.Fate {
		defer func() { lost = false }()
		return map[bool]chaintest.Fate{true: chaintest.Lost}[lost]
	}
	if err := w.reclaims("t1", "reimage", id, nil); err != nil {
		t.Fatal(err)
	}
	w.settle(func() {
		if kept == nil || done || w.clock.Now().Sub(given) < after {
			return
		}
		done = true
		if _, err := w.region.RoundTripper().RoundTrip(kept); err != nil {
			t.Fatal(err)
		}
	})
	r, m := w.run("t1"), w.machine(maassim.Box(1).Serial)
	if n := w.region.Count("release"); !carried && n != 1 {
		t.Errorf("%d releases reached MAAS: it was sent again before it was known what had come of it", n)
	}
	if r.Status != chain.Completed || m.Status != maassim.Deployed || !done || hardware(w, "deploy") != 1 || m.Annotations["hostler-run"] != "t1" {
		t.Errorf("%s at %s: %+v; machine %s, %d deployments, %d releases; late %v", r.Status, r.Stage, r.Failure, m.Status, hardware(w, "deploy"), hardware(w, "release"), done)
	}
}

// Two runs never have a machine in common.
func TestTwoRunsDoNotTakeBackOneMachine(t *testing.T) {
	w := newWorld(t, "3.6")
	id := w.node1(nil)
	if err := w.reclaims("t1", "reimage", id, nil); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"reimage", "removal"} {
		if err := w.reclaims("t2", kind, id, nil); !locked(err) {
			t.Errorf("a %s at once: %v", kind, err)
		}
	}
	state, locks, err := onboarding.New(w.site, w.profile, w.sku, onboarding.Request{Hostname: "c77", IPMIIP: maassim.Box(1).BMC.Address})
	if err != nil {
		t.Fatal(err)
	}
	var late error
	tried := false
	w.settle(func() {
		// The address of the BMC is locked as soon as it is known.
		if w.turned("t1").IPMIIP != "" && !tried {
			tried = true
			_, late = w.engine.Start(ctx, chain.Start{ID: "r2", Kind: onboarding.Kind, Site: "dc1", State: state, Locks: locks})
		}
	})
	if r := w.run("t1"); r.Status != chain.Completed || hardware(w, "deploy") != 1 || !locked(late) {
		t.Errorf("%s at %s: %+v; an onboarding by its BMC: %v", r.Status, r.Stage, r.Failure, late)
	}
}

func locked(err error) bool {
	l := (*chain.Locked)(nil)
	return errors.As(err, &l)
}

// A run does not end while MAAS may still switch the machine off: somebody else may have the
// machine by then.
func TestAMachineIsNotSwitchedOffWhenItsRunHasEnded(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("the broker dies: ", dies), func(t *testing.T) {
			w := newWorld(t, "3.6")
			id := w.node1(nil)
			var kept *http.Request
			var given time.Time
			lost, on, late := false, false, chain.Status("")
			w.guard = guardFunc(func(req *http.Request) (*http.Response, error) {
				if kept == nil && req.URL.Query().Get("op") == "power_off" {
					kept, given, lost = req.Clone(ctx), w.clock.Now(), dies
					req.Body, kept.Body = twice(t, req.Body)
					return nil, io.ErrUnexpectedEOF
				}
				return w.region.RoundTripper().RoundTrip(req)
			})
			w.lossy.Fate = func(int) chaintest.Fate {
				defer func() { lost = false }()
				return map[bool]chaintest.Fate{true: chaintest.Lost}[lost]
			}
			if err := w.reclaims("t1", "removal", id, nil); err != nil {
				t.Fatal(err)
			}
			w.settle(func() {
				if w.run("t1").Stage == "power_off_maas_node" && !on {
					on = true
					_ = w.region.ByHand(maassim.PoweredOnByHand, id)
				}
				if kept != nil && late == "" && w.clock.Now().Sub(given) >= 100*time.Second {
					late = w.run("t1").Status
					if _, err := w.region.RoundTripper().RoundTrip(kept); err != nil {
						t.Fatal(err)
					}
				}
			})
			if r := w.run("t1"); r.Status != chain.Completed || late != chain.Running || w.machine(maassim.Box(1).Serial).On {
				t.Errorf("%s at %s: %+v; when MAAS switched it off, it was %q", r.Status, r.Stage, r.Failure, late)
			}
		})
	}
}

// A run that is cancelled while MAAS may still release the machine does not end before the outcome
// is known: another run may have the machine by then.
func TestACancelWaitsForWhatMAASMayStillCarryOut(t *testing.T) {
	for _, kind := range []string{"reimage", "removal"} {
		w := newWorld(t, "3.6")
		id := w.node1(nil)
		var asked time.Time
		w.guard = guardFunc(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("op") != "release" {
				return w.region.RoundTripper().RoundTrip(req)
			}
			asked = w.clock.Now()
			w.act("t1", chain.Cancel)
			return nil, io.ErrUnexpectedEOF
		})
		if err := w.reclaims("t1", kind, id, nil); err != nil {
			t.Fatal(err)
		}
		w.settle(nil)
		if r := w.run("t1"); r.Status != chain.Cancelled || asked.IsZero() || r.CompletedAt.Sub(asked) < 3*time.Minute {
			t.Errorf("%s: %s at %s, %v after the release was asked for", kind, r.Status, r.Stage, r.CompletedAt.Sub(asked))
		}
	}
}
