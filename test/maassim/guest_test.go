package maassim_test

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/test/maassim"
)

// stub is a guest that records its orders and boots nothing.
type stub struct{ told []string }

func (s *stub) Install(seed string) { s.told = append(s.told, "install "+seed) }

func (s *stub) Erase(how string) { s.told = append(s.told, "erase "+how) }

func (s *stub) Switch(on bool) {
	s.told = append(s.told, map[bool]string{true: "on", false: "off"}[on])
}

// since returns the orders after the first n.
func (s *stub) since(n int) []string { return s.told[n:] }

func TestAGuestBootsWhatIsInstalledAndNothingElse(t *testing.T) {
	r, clock, _ := start(t, "3.6")
	var g stub
	box := maassim.Box(1)
	box.Guest = &g
	id := r.Arrange(maassim.Arranged{Hardware: box, Status: maassim.Ready})
	act := func(op string) {
		t.Helper()
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op="+op, url.Values{})
	}
	was := len(g.told)
	says := func(what string, want ...string) {
		t.Helper()
		r.Tick()
		if got := g.since(was); !slices.Equal(got, want) {
			t.Errorf("%s: the guest was told %q, want %q", what, got, want)
		}
		was = len(g.told)
	}
	act("commission")
	clock.pass(maassim.Usual.Commission + 2*maassim.Usual.Test)
	says("commissioning, from the network", "off", "off")
	act("deploy")
	clock.pass(maassim.Usual.Deploy / 2)
	says("the installer", "off")
	clock.pass(maassim.Usual.Deploy)
	says("the installed system", "install /MAAS/nocloud/"+id+"/")
	if got := status(t, r, id); got != maassim.Deploying {
		t.Errorf("%v before the guest asked", got)
	}
	ask(t, r, "", http.MethodGet, "nocloud/"+id+"/user-data", nil)
	act("power_off")
	act("power_on")
	says("a power cycle", "off", "off", "on")
	act("release")
	clock.pass(time.Minute)
	says("a release", "off")
	if got := status(t, r, id); got != maassim.Ready {
		t.Errorf("%v after the release", got)
	}
}

// A guest that never asks for its user-data lets the deployment time out, as a machine does.
func TestAGuestThatNeverAsksFailsItsDeployment(t *testing.T) {
	r, clock, _ := start(t, "3.5")
	var g stub
	box := maassim.Box(1)
	box.Guest = &g
	id := r.Arrange(maassim.Arranged{Hardware: box, Status: maassim.Ready})
	r.Inject(maassim.Fault{Kind: maassim.DatasourceFails})
	for range 2 { // once by the fault, for which nothing is installed, and once without
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", url.Values{})
		clock.pass(maassim.Usual.NodeTimeout + time.Second)
		if got := status(t, r, id); got != maassim.FailedDeployment {
			t.Errorf("%v when MAAS's patience was over", got)
		}
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=release", url.Values{})
		clock.pass(time.Minute)
	}
	if n := len(slices.DeleteFunc(g.told, func(s string) bool { return s == "on" || s == "off" })); n != 1 {
		t.Errorf("installed %d times, want once", n)
	}
}
