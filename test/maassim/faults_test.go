package maassim_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/test/maassim"
)

// allocated returns a region of the version with a machine allocated to admin.
func allocated(t *testing.T, version string) (*maassim.Region, *clock, string) {
	t.Helper()
	r, clock, _ := start(t, version)
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Allocated, Owner: "admin"})
	return r, clock, id
}

func status(t *testing.T, r *maassim.Region, id string) maassim.Status {
	t.Helper()
	m, found := r.Machine(id)
	if !found {
		t.Fatalf("machine %s is gone", id)
	}
	return m.Status
}

// Faults of a call: the caller's view, and whether the call was carried out.
func TestTroubleWithACall(t *testing.T) {
	for _, tc := range []struct {
		kind        maassim.Kind
		code        int
		retryAfter  string
		body        string
		carriedOut  bool
		connections bool // the caller gets no answer
	}{
		{kind: maassim.Unavailable, code: 503, body: "rack controller"},
		{kind: maassim.RackBusy, code: 503, retryAfter: "10", body: "rack controller"},
		{kind: maassim.Conflicted, code: 409, retryAfter: "5"},
		{kind: maassim.Internal, code: 500},
		{kind: maassim.ClockSkew, code: 401, body: "greater difference than threshold 300"},
		{kind: maassim.KeyRevoked, code: 401, body: "Invalid API key."},
		{kind: maassim.ProxyPage, code: 200, body: "<html>"},
		{kind: maassim.Unreachable, connections: true},
		{kind: maassim.UnavailableAfter, code: 503, carriedOut: true},
		{kind: maassim.GatewayTimeout, code: 504, body: "<html>", carriedOut: true},
		{kind: maassim.InternalAfter, code: 500, carriedOut: true},
		{kind: maassim.AnswerLost, connections: true, carriedOut: true},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			r, _, id := allocated(t, "3.6")
			r.Inject(maassim.Fault{Kind: tc.kind, Op: "deploy", Machine: "BX00001"})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, maassim.URL+"/api/2.0/machines/"+id+"/?op=deploy", strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", signature(r.APIKey(), wallClock().Unix(), "n"))
			res, err := r.RoundTripper().RoundTrip(req)
			switch {
			case tc.connections:
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("%v, want a lost connection", err)
				}
			case err != nil:
				t.Fatal(err)
			default:
				body, _ := io.ReadAll(res.Body)
				if res.StatusCode != tc.code || res.Header.Get("Retry-After") != tc.retryAfter || !strings.Contains(string(body), tc.body) {
					t.Errorf("%d, Retry-After %q: %s", res.StatusCode, res.Header.Get("Retry-After"), body)
				}
			}
			want := maassim.Allocated
			if tc.carriedOut {
				want = maassim.Deploying
			}
			if got := status(t, r, id); got != want {
				t.Errorf("then %v, want %v", got, want)
			}
			calls := r.Calls()
			if last := calls[len(calls)-1]; last.Op != "deploy" || last.Fault != tc.kind || last.Before != maassim.Allocated || last.After != want || last.SystemID != id {
				t.Errorf("logged as %+v", last)
			}
		})
	}
}

// Faults of a machine: its status when the process has ended.
func TestTroubleWithAMachine(t *testing.T) {
	deploy := url.Values{"enable_hw_sync": {"true"}}
	for _, tc := range []struct {
		kind    maassim.Kind
		version string
		from    maassim.Status
		op      string
		form    url.Values
		code    int
		after   map[time.Duration]maassim.Status
		event   string // an event that the feed then has, or with a leading dash does not have
	}{
		{kind: maassim.PowerFails, version: "3.5", from: maassim.Allocated, op: "deploy", code: 503, after: map[time.Duration]maassim.Status{0: maassim.Allocated}, event: "Failed to power on node"},
		{kind: maassim.PowerFails, version: "3.6", from: maassim.Allocated, op: "deploy", code: 200, after: map[time.Duration]maassim.Status{0: maassim.Deploying, time.Minute: maassim.FailedDeployment}, event: "-Marking node failed"},
		{kind: maassim.DeployDiesUnseen, version: "3.6", from: maassim.Allocated, op: "deploy", code: 200, after: map[time.Duration]maassim.Status{time.Minute: maassim.FailedDeployment}, event: "-Marking node failed"},
		{kind: maassim.DeployFails, version: "3.4", from: maassim.Allocated, op: "deploy", code: 200, after: map[time.Duration]maassim.Status{time.Hour: maassim.FailedDeployment}, event: "Node installation failure"},
		{kind: maassim.DatasourceFails, version: "3.4", from: maassim.Allocated, op: "deploy", code: 200, after: map[time.Duration]maassim.Status{29 * time.Minute: maassim.Deploying, 30 * time.Minute: maassim.FailedDeployment}, event: "Installation complete"},
		{kind: maassim.DatasourceFails, version: "3.6", from: maassim.Allocated, op: "deploy", code: 200, after: map[time.Duration]maassim.Status{59 * time.Minute: maassim.Deploying, time.Hour: maassim.FailedDeployment}, event: "Marking node failed"},
		{kind: maassim.CommissioningFails, version: "3.6", from: maassim.New, op: "commission", code: 200, after: map[time.Duration]maassim.Status{time.Hour: maassim.FailedCommissioning}, event: "Failed commissioning"},
		{kind: maassim.CommissioningStalls, version: "3.6", from: maassim.New, op: "commission", code: 200, after: map[time.Duration]maassim.Status{29 * time.Minute: maassim.Commissioning, 30 * time.Minute: maassim.FailedCommissioning}, event: "Marking node failed"},
		{kind: maassim.TestingFails, version: "3.6", from: maassim.Ready, op: "test", code: 200, after: map[time.Duration]maassim.Status{time.Hour: maassim.FailedTesting}, event: "Failed testing"},
		{kind: maassim.TestingFails, version: "3.6", from: maassim.New, op: "commission", code: 200, after: map[time.Duration]maassim.Status{time.Hour: maassim.FailedTesting}, event: "Failed testing"},
		{kind: maassim.ReleaseHangs, version: "3.6", from: maassim.Deployed, op: "release", code: 200, after: map[time.Duration]maassim.Status{4 * time.Minute: maassim.Releasing, 5 * time.Minute: maassim.ReleasingFailed}, event: "Marking node failed"},
		{kind: maassim.PowerFails, version: "3.6", from: maassim.Deployed, op: "release", code: 503, after: map[time.Duration]maassim.Status{0: maassim.Deployed}, event: "Failed to power off node"},
		{kind: maassim.EraseFails, version: "3.4", from: maassim.Deployed, op: "release", form: url.Values{"erase": {"true"}}, code: 200, after: map[time.Duration]maassim.Status{0: maassim.DiskErasing, time.Hour: maassim.FailedDiskErasing}, event: "Marking node failed"},
		{kind: maassim.EraseHangs, version: "3.4", from: maassim.Deployed, op: "release", form: url.Values{"erase": {"true"}}, code: 200, after: map[time.Duration]maassim.Status{0: maassim.DiskErasing, 1000 * time.Hour: maassim.DiskErasing}},
		{kind: maassim.EventsMissing, version: "3.6", from: maassim.Ready, op: "deploy", form: deploy, code: 200, after: map[time.Duration]maassim.Status{0: maassim.Deploying}},
	} {
		t.Run(string(tc.kind)+" "+tc.version, func(t *testing.T) {
			r, clock, c := start(t, tc.version)
			owner := map[maassim.Status]string{maassim.Allocated: "admin", maassim.Deployed: "admin"}[tc.from]
			id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: tc.from, Owner: owner, PowerOn: tc.from == maassim.Deployed})
			r.Inject(maassim.Fault{Kind: tc.kind, Machine: id})
			if res, body := send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op="+tc.op, tc.form); res.StatusCode != tc.code {
				t.Fatalf("%d %s, want %d", res.StatusCode, body, tc.code)
			}
			passed := time.Duration(0)
			for _, d := range slices.Sorted(mapKeys(tc.after)) {
				clock.pass(d - passed)
				passed = d
				if got := status(t, r, id); got != tc.after[d] {
					t.Fatalf("after %v in %v, want %v", d, got, tc.after[d])
				}
			}
			events, err := c.Events.Get(everything(id))
			if err != nil {
				t.Fatal(err)
			}
			absent, _ := strings.CutPrefix(tc.event, "-")
			has := slices.Contains(kinds(events), absent)
			if tc.event != "" && has != (absent == tc.event) {
				t.Errorf("events %v, want %s", kinds(events), tc.event)
			}
		})
	}
}

func mapKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func TestCommissioningFindsWhatTheHardwareLacks(t *testing.T) {
	for _, tc := range []struct {
		kind maassim.Kind
		is   func(maassim.Machine, map[string]any) bool
	}{
		{maassim.NoBootCard, func(_ maassim.Machine, b map[string]any) bool { return len(b["blockdevice_set"].([]any)) == 2 }},
		{maassim.TwoBootCards, func(_ maassim.Machine, b map[string]any) bool { return len(b["blockdevice_set"].([]any)) == 4 }},
		{maassim.NoDisks, func(_ maassim.Machine, b map[string]any) bool { return b["boot_disk"] == nil }},
		{maassim.NoInterfaces, func(_ maassim.Machine, b map[string]any) bool {
			return len(b["interface_set"].([]any)) == 0 && b["boot_interface"] == nil
		}},
		{maassim.NoIDPath, func(_ maassim.Machine, b map[string]any) bool {
			return b["boot_disk"].(map[string]any)["id_path"] == ""
		}},
		{maassim.NoStatusMessage, func(_ maassim.Machine, b map[string]any) bool { return b["status_message"] == nil }},
		{"", func(m maassim.Machine, b map[string]any) bool {
			return b["boot_disk"] != nil && b["status_message"] != nil && len(m.Interfaces) == 2 && len(b["blockdevice_set"].([]any)) == 3
		}},
	} {
		t.Run(string(tc.kind), func(t *testing.T) {
			r, clock, c := start(t, "3.6")
			if tc.kind != "" {
				r.Inject(maassim.Fault{Kind: tc.kind})
			}
			_, m := enroll(t, r, clock, c, 1)
			var body map[string]any
			read(t, r, "machines/"+m.SystemID+"/", &body)
			seen, _ := r.Machine(m.SystemID)
			if seen.Status != maassim.Ready || !tc.is(seen, body) {
				t.Errorf("in %v as %v", seen.Status, body)
			}
		})
	}
}

func TestTokensThatAreLateOrNeverCome(t *testing.T) {
	for kind, at := range map[maassim.Kind]time.Duration{maassim.TokenLate: 7 * time.Minute, maassim.TokenNever: 0, "": maassim.Usual.Token} {
		r, clock, id := allocated(t, "3.5")
		if kind != "" {
			r.Inject(maassim.Fault{Kind: kind, After: at - maassim.Usual.Token})
		}
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", nil)
		had := time.Duration(0)
		for passed := time.Duration(0); passed < time.Hour; passed += time.Second {
			if m, _ := r.Machine(id); m.Token != "" && had == 0 {
				had = passed
			}
			clock.pass(time.Second)
		}
		if had != at {
			t.Errorf("%q: token after %v, want %v", kind, had, at)
		}
	}
}

func TestAHostThatNeverComesUpAndASyncThatStops(t *testing.T) {
	for kind, want := range map[maassim.Kind]struct {
		up   bool
		sync time.Duration // the newest, counted from Deployed
	}{
		maassim.NeverUp:   {false, 0},
		maassim.SyncStops: {true, 30 * time.Minute},
		"":                {true, 3 * time.Hour},
	} {
		r, clock, id := allocated(t, "3.6")
		if kind != "" {
			r.Inject(maassim.Fault{Kind: kind, After: 40 * time.Minute})
		}
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op=deploy", url.Values{"enable_hw_sync": {"true"}})
		clock.pass(maassim.Usual.Deploy)
		deployed := clock.Now()
		clock.pass(3 * time.Hour)
		m, _ := r.Machine(id)
		if m.Status != maassim.Deployed || m.HostUp != want.up || m.LastSync.Sub(deployed) != want.sync {
			t.Errorf("%q: %v, up %v, synced after %v", kind, m.Status, m.HostUp, m.LastSync.Sub(deployed))
		}
	}
}

// An action by hand happens after the operation that it waits for.
func TestPeopleAct(t *testing.T) {
	first := ""
	for kind, is := range map[maassim.Kind]func(maassim.Machine, bool) bool{
		maassim.DeletedByHand:   func(_ maassim.Machine, there bool) bool { return !there },
		maassim.TakenByHand:     func(m maassim.Machine, _ bool) bool { return m.Owner == "somebody" },
		maassim.MovedByHand:     func(m maassim.Machine, _ bool) bool { return m.Pool == "by-hand" },
		maassim.LockedByHand:    func(m maassim.Machine, _ bool) bool { return m.Locked },
		maassim.ReadyByHand:     func(m maassim.Machine, _ bool) bool { return m.Status == maassim.Ready && m.Owner == "" },
		maassim.TokenRotated:    func(m maassim.Machine, _ bool) bool { return m.Token != "" && m.Token != first },
		maassim.PoweredOnByHand: func(m maassim.Machine, _ bool) bool { return m.On },
	} {
		t.Run(string(kind), func(t *testing.T) {
			r, clock, _ := start(t, "3.6")
			id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Allocated, Owner: "admin", Token: true})
			before, there := r.Machine(id)
			first = before.Token
			if is(before, there) {
				t.Fatal("so it was before")
			}
			r.Inject(maassim.Fault{Kind: kind, Op: "read", After: time.Minute})
			if res, body := send(t, r, r.APIKey(), http.MethodGet, "machines/"+id+"/", nil); res.StatusCode != http.StatusOK {
				t.Fatalf("%d %s", res.StatusCode, body)
			}
			if m, there := r.Machine(id); is(m, there) {
				t.Error("before its time")
			}
			clock.pass(time.Minute)
			if m, there := r.Machine(id); !is(m, there) {
				t.Errorf("then %+v, there %v", m, there)
			}
			acted := slices.ContainsFunc(r.History(id), func(c maassim.Change) bool { return c.By == "somebody" })
			if !acted && kind != maassim.PoweredOnByHand {
				t.Errorf("the history does not tell who: %+v", r.History(id))
			}
		})
	}
	r, _, id := allocated(t, "3.6")
	if r.ByHand(maassim.Internal, id) == nil || r.ByHand(maassim.LockedByHand, "zzzzzz") == nil {
		t.Error("what nobody can do was done")
	}
}

// A slow answer takes time on the caller's clock. A caller who gives up leaves nothing done.
func TestASlowRegionTakesItsTime(t *testing.T) {
	clock := newClock()
	r := &maassim.Region{Now: clock.Now, OAuthNow: wallClock, Sleep: func(ctx context.Context, d time.Duration) error {
		clock.pass(d)
		return ctx.Err()
	}}
	r.Inject(maassim.Fault{Kind: maassim.SlowRegion, Op: "list", After: 30 * time.Second, Times: 2})
	began := clock.Now()
	for range 2 {
		if res, _ := send(t, r, r.APIKey(), http.MethodGet, "machines/", nil); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
	}
	if took := clock.Now().Sub(began); took != time.Minute {
		t.Errorf("two lists took %v", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.Inject(maassim.Fault{Kind: maassim.SlowRegion, After: 30 * time.Second})
	r.Sleep = func(context.Context, time.Duration) error { cancel(); return context.Canceled }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, maassim.URL+"/api/2.0/machines/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.RoundTripper().RoundTrip(req); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if r.Count("list") != 2 {
		t.Error("the list that nobody waited for was made")
	}
}

// A fault strikes at its operation and machine, after its skips, as often as its Times.
func TestAFaultStrikesAsOftenAsItSays(t *testing.T) {
	r, _, _ := start(t, "3.6")
	other := r.Arrange(maassim.Arranged{Hardware: maassim.Box(2), Status: maassim.Ready})
	id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: maassim.Ready})
	r.Inject(maassim.Fault{Kind: maassim.Internal, Op: "read", Machine: maassim.Box(1).BMC.Address, Skip: 1, Times: 2})
	var codes []int
	for _, path := range []string{id, other, id, other, id, id} {
		res, _ := send(t, r, r.APIKey(), http.MethodGet, "machines/"+path+"/", nil)
		codes = append(codes, res.StatusCode)
	}
	if want := []int{200, 200, 500, 200, 500, 200}; !slices.Equal(codes, want) {
		t.Errorf("%v, want %v", codes, want)
	}
	r.Inject(maassim.Fault{Kind: maassim.Internal, Times: -1})
	r.Relent(maassim.Internal)
	if res, _ := send(t, r, r.APIKey(), http.MethodGet, "machines/", nil); res.StatusCode != http.StatusOK {
		t.Error("it was not taken back")
	}
}

func TestEveryKindOfTroubleIsDrawn(t *testing.T) {
	by, drawn := rand.New(rand.NewPCG(1, 2)), map[maassim.Kind]bool{}
	for range 2000 {
		drawn[maassim.Draw(by, "deploy", "read").Kind] = true
	}
	if len(drawn) != len(maassim.Faults) {
		t.Errorf("%d of %d kinds", len(drawn), len(maassim.Faults))
	}
}

// A machine switched off during a commissioning or an installation reports nothing more, and MAAS
// times it out.
func TestAMachineSwitchedOffMidwayIsGivenUp(t *testing.T) {
	for _, tc := range []struct {
		from, during, to maassim.Status
		op               string
	}{
		{maassim.Allocated, maassim.Deploying, maassim.FailedDeployment, "deploy"},
		{maassim.New, maassim.Commissioning, maassim.FailedCommissioning, "commission"},
	} {
		r, clock, _ := start(t, "3.4")
		owner := map[maassim.Status]string{maassim.Allocated: "admin"}[tc.from]
		id := r.Arrange(maassim.Arranged{Hardware: maassim.Box(1), Status: tc.from, Owner: owner})
		send(t, r, r.APIKey(), http.MethodPost, "machines/"+id+"/?op="+tc.op, nil)
		if err := r.ByHand(maassim.PoweredOffByHand, id); err != nil {
			t.Fatal(err)
		}
		clock.pass(29 * time.Minute)
		if got := status(t, r, id); got != tc.during {
			t.Errorf("%s: %v", tc.op, got)
		}
		clock.pass(time.Minute)
		if got := status(t, r, id); got != tc.to {
			t.Errorf("%s: %v, want %v", tc.op, got, tc.to)
		}
	}
}
