package maassim_test

import (
	"context"
	"crypto/rand"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/maassim"
)

// moves are calls that change machines, with their parameters.
var moves = []struct {
	op   string
	form url.Values
}{
	{"commission", nil},
	{"commission", url.Values{"testing_scripts": {"none"}}},
	{"deploy", nil},
	{"deploy", url.Values{"enable_hw_sync": {"true"}}},
	{"release", nil},
	{"release", url.Values{"erase": {"true"}}},
	{"abort", nil},
	{"mark_broken", nil},
	{"mark_fixed", nil},
	{"power_on", nil},
	{"power_off", nil},
	{"lock", nil},
	{"unlock", nil},
	{"test", nil},
	{"override_failed_testing", nil},
	{"rescue_mode", nil},
	{"exit_rescue_mode", nil},
	{"set_workload_annotations", url.Values{"run": {"r"}}},
}

// Whatever calls, faults and actions by hand happen, a machine makes only the model's transitions,
// and an owner, a token and an address end with their use.
func TestMachinesTakeOnlyStepsOfTheModel(t *testing.T) {
	for seed := range uint64(30) {
		version := []string{"3.4", "3.5", "3.6"}[seed%3]
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { wander(t, version, seed) })
	}
}

func wander(t *testing.T, version string, seed uint64) {
	by := mathrand.New(mathrand.NewPCG(seed, 7))
	clock := newClock()
	r := &maassim.Region{Version: version, Seed: seed, Now: clock.Now, OAuthNow: wallClock, Sleep: noWait}
	key := r.APIKey()
	// MAAS itself removes the owner after rescue mode, and up to 3.5 when mark_broken fails to
	// switch the power.
	disowned := map[string]bool{}
	for n := range 3 {
		r.Arrange(maassim.Arranged{Hardware: maassim.Box(n), Status: []maassim.Status{maassim.New, maassim.Ready, maassim.Allocated}[n], Owner: []string{"", "", "admin"}[n]})
	}
	for range 150 {
		machines := r.Machines()
		if len(machines) == 0 {
			break
		}
		m := machines[by.IntN(len(machines))]
		move := moves[by.IntN(len(moves))]
		path := "machines/" + m.SystemID + "/?op=" + move.op
		form := move.form
		switch by.IntN(12) {
		case 0:
			path, form = "machines/?op=allocate", url.Values{"system_id": {m.SystemID}}
		case 1:
			if f := maassim.Draw(by, "deploy", "release", "commission"); f.Kind != maassim.KeyRevoked {
				r.Inject(f)
			}
		case 2:
			clock.pass(time.Duration(by.IntN(7200)) * time.Second)
		default:
			clock.pass(time.Duration(by.IntN(300)) * time.Second)
		}
		code := knock(t, r, key, path, form)
		if move.op == "exit_rescue_mode" || (move.op == "mark_broken" && (code == 0 || code >= http.StatusInternalServerError)) {
			disowned[m.SystemID] = true
		}
		for _, m := range r.Machines() {
			check(t, disowned, m)
		}
	}
	for _, c := range r.History("") {
		if c.What == "status" && c.By != "somebody" && !maassim.May(c.From, c.To) && !past(c) {
			t.Errorf("seed %d: %s went from %s to %s", seed, c.SystemID, c.From, c.To)
		}
	}
}

// past reports a transition that MAAS itself makes outside its model: aborted tests.
func past(c maassim.Change) bool { return c.From == "Testing" && c.To == "Failed commissioning" }

func check(t *testing.T, disowned map[string]bool, m maassim.Machine) {
	t.Helper()
	if m.HostUp && !m.On {
		t.Errorf("%s is up without power", m.SystemID)
	}
	if disowned[m.SystemID] {
		return
	}
	idle := m.Status == maassim.New || m.Status == maassim.Ready
	switch {
	case m.Token != "" && m.Owner == "" && !idle && m.Status != maassim.Broken:
		t.Errorf("%s in %v has a token and no owner", m.SystemID, m.Status)
	case m.Status == maassim.Allocated && m.Owner == "":
		t.Errorf("%s is allocated to nobody", m.SystemID)
	}
}

func noWait(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// knock sends a call and accepts any answer, or a lost answer.
func knock(t *testing.T, r *maassim.Region, key, path string, form url.Values) (code int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, maassim.URL+"/api/2.0/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", signature(key, wallClock().Unix(), rand.Text()))
	res, err := r.RoundTripper().RoundTrip(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode == http.StatusMethodNotAllowed {
		t.Errorf("%s: %d %s, %v", path, res.StatusCode, body, err)
	}
	return res.StatusCode
}
