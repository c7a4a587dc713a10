package onboarding_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

// alone runs only some stages of the list, on a given state and a new broker.
func (w *world) alone(id string, state onboarding.Onboarding, only ...string) chain.Record {
	w.t.Helper()
	w.only = only
	w.boot()
	return w.enter(id, state)
}

// enter is alone without a new broker.
func (w *world) enter(id string, state onboarding.Onboarding) chain.Record {
	w.t.Helper()
	if _, err := w.engine.Start(ctx, chain.Start{ID: id, Kind: onboarding.Kind, Site: w.site.Name, State: state}); err != nil {
		w.t.Fatal(err)
	}
	w.settle(nil)
	return w.run(id)
}

// asked returns the first state of a run for box n.
func (w *world) asked(n int) onboarding.Onboarding {
	w.t.Helper()
	s, _, err := onboarding.New(w.site, w.profile, w.sku, onboarding.Request{Hostname: hostname(n), IPMIIP: maassim.Box(n).BMC.Address})
	if err != nil {
		w.t.Fatal(err)
	}
	s.PowerPath = w.site.PowerPath
	return s
}

func stateOf(t *testing.T, r chain.Record) onboarding.Onboarding {
	t.Helper()
	var s onboarding.Onboarding
	if err := json.Unmarshal(r.State, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// writes lists the calls that change something.
func (w *world) writes() (out []string) {
	for _, c := range w.region.Calls() {
		if c.Method != http.MethodGet {
			out = append(out, c.Op)
		}
	}
	return out
}

// Each stage, and the whole list, may be entered again when its work is done already. It then
// changes nothing.
func TestAStageThatIsEnteredAgainChangesNothing(t *testing.T) {
	w := newWorld(t, "3.6")
	w.region.PlugIn(w.box(1))
	w.onboard("r", onboarding.Request{Hostname: "c01", IPMIIP: maassim.Box(1).BMC.Address})
	w.settle(nil)
	done := stateOf(t, w.run("r"))
	before, nodes := len(w.writes()), len(w.book.All())
	for _, only := range append(slices.Clone(stages), "") {
		t.Run(only, func(t *testing.T) {
			names := []string{only}
			switch only {
			case "":
				names = nil
			case "wait_for_deployed": // its rescue leads back to deploy_via_maas
				names = append(names, "deploy_via_maas")
			}
			w.t = t
			w.freshStore()
			if r := w.alone("r", done, names...); r.Status != chain.Completed {
				t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			if again := w.writes(); len(again) != before {
				t.Errorf("it changes %v", again[before:])
			}
			if len(w.book.All()) != nodes {
				t.Error("there is another node")
			}
		})
	}
}

func TestLoadSiteConfig(t *testing.T) {
	for name, row := range map[string]struct {
		with   func(w *world, s *onboarding.Onboarding)
		status chain.Status
		code   string
		held   string
	}{
		"as it should be":           {func(*world, *onboarding.Onboarding) {}, chain.Completed, "", ""},
		"disabled":                  {func(w *world, _ *onboarding.Onboarding) { w.disable() }, chain.FailedRetryable, "site_disabled", ""},
		"disabled, and under way":   {func(w *world, s *onboarding.Onboarding) { w.disable(); s.SystemID = "abc123" }, chain.Completed, "", ""},
		"no such site":              {func(_ *world, s *onboarding.Onboarding) { s.SiteID = "gone" }, chain.FailedRetryable, "site_not_found", ""},
		"of no administrator":       {func(w *world, _ *onboarding.Onboarding) { w.credentials(w.region.AddUser("bob", false)) }, chain.Running, "", "not an administrator"},
		"the key is taken no more":  {func(w *world, _ *onboarding.Onboarding) { w.region.RevokeKeys("admin") }, chain.Running, "", "unauthorized"},
		"the credentials are gone":  {func(w *world, _ *onboarding.Onboarding) { clear(w.secrets.kept) }, chain.Running, "", "cannot find the MAAS token"},
		"the secrets are away":      {func(w *world, _ *onboarding.Onboarding) { w.secrets.down = true }, chain.Running, "", "it is sealed"},
		"the region is away":        {func(w *world, _ *onboarding.Onboarding) { w.region.Inject(fault(maassim.Unreachable, "", -1)) }, chain.Running, "", "unavailable"},
		"the clocks are far apart":  {func(w *world, _ *onboarding.Onboarding) { w.region.Inject(fault(maassim.ClockSkew, "", -1)) }, chain.Running, "", "clock_skew"},
		"a proxy answers for MAAS":  {func(w *world, _ *onboarding.Onboarding) { w.region.Inject(fault(maassim.ProxyPage, "", -1)) }, chain.Running, "", "check for a proxy"},
		"one answer of it was lost": {func(w *world, _ *onboarding.Onboarding) { w.region.Inject(fault(maassim.AnswerLost, "whoami")) }, chain.Completed, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			s := w.asked(1)
			row.with(w, &s)
			w.patience = time.Minute
			r := w.alone("r", s, "load_site_config")
			if r.Status != row.status || row.code != "" && r.Failure.Code != row.code || !strings.Contains(r.Waiting, row.held) || r.Held != (row.held != "") {
				t.Errorf("%s %+v, held %v: %s", r.Status, r.Failure, r.Held, r.Waiting)
			}
		})
	}
}

func (w *world) disable() {
	s := w.site
	s.Status = broker.SiteDisabled
	w.book.PutSite(s)
}

func TestPowerCredentialsAreResolvedInTheirOrder(t *testing.T) {
	w := newWorld(t, "3.6")
	w.box(1)
	s := w.asked(1)
	s.PXEMAC = "02:00:5e:00:01:01"
	all := []struct {
		by    broker.PowerSelector
		value string
	}{{broker.ByHostname, "c01"}, {broker.ByIPMIIP, s.IPMIIP}, {broker.ByPXEMAC, s.PXEMAC}}
	from := func(id string) string {
		r := w.alone(id, s, "resolve_power_credentials")
		if r.Status != chain.Completed {
			t.Fatalf("%s: %+v", r.Status, r.Failure)
		}
		return stateOf(t, r).PowerFrom + " " + stateOf(t, r).PowerPath
	}
	if got := from("none"); got != "default "+w.site.PowerPath {
		t.Error(got)
	}
	for n, o := range all { // the stronger override comes later
		path := broker.PowerOverridePath(w.site.ID, fmt.Sprint(n))
		p, _ := maas.NewPower("root", "other")
		if err := maas.PutPower(ctx, w.secrets, path, p); err != nil {
			t.Fatal(err)
		}
		w.book.Overrides = append(w.book.Overrides, broker.PowerOverride{ID: fmt.Sprint(n), SiteID: w.site.ID, SelectorType: o.by, SelectorValue: o.value, VaultPath: path, Status: broker.SiteActive})
		if got, want := from(string(o.by)), string(o.by)+" "+path; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	clear(w.secrets.kept)
	w.credentials(w.region.APIKey())
	if r := w.alone("lost", s, "resolve_power_credentials"); r.Failure == nil || r.Failure.Class != chain.Class(broker.SiteCapabilityMissing) || r.Failure.Code != "site_credentials_missing" {
		t.Errorf("%s: %+v", r.Status, r.Failure)
	}
}

// A running machine counts as somebody's until a person or the profile permits switching its power.
func TestAMachineThatRunsIsNotResetUnlessTheProfileSaysSo(t *testing.T) {
	for _, cycle := range []bool{false, true} {
		w := newWorld(t, "3.6")
		w.profile.Policy.DiscoveryPowerCycle = cycle
		id := w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: w.box(1), Status: maassim.New, Uncommissioned: true, PowerOn: true})
		s := w.asked(1)
		s.SystemID = id
		w.patience = time.Hour
		r := w.alone("r", s, "commission_node")
		m, _ := w.region.Machine(id)
		if cycle && (r.Status != chain.Completed || m.Status != maassim.Commissioning) {
			t.Errorf("with the policy: %s %+v, machine %+v", r.Status, r.Failure, m)
		}
		if !cycle && (r.Failure == nil || r.Failure.Code != "failed_discovery_timeout" || !strings.Contains(r.Failure.Message, "switch it off") || m.Boots != 0 || !m.On) {
			t.Errorf("without: %s %+v, machine %+v", r.Status, r.Failure, m)
		}
	}
}

func TestARoCESubnetThatAnotherRunMakesMeanwhileIsUsed(t *testing.T) {
	w := newWorld(t, "3.6")
	b := w.box(1)
	b.NICs[1].Network = 1
	id := w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: b, Status: maassim.Ready})
	w.book.RoCE = []broker.RoCEAssignment{{SiteID: w.site.ID, Hostname: "c01", Interface: "eno8403", IPv4CIDR: "172.30.10.61/24"}}
	raced := false
	w.guard = roundTrip(func(req *http.Request) (*http.Response, error) {
		if raced || req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/subnets/") {
			return w.region.RoundTripper().RoundTrip(req)
		}
		raced = true
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		other := req.Clone(req.Context())
		other.Body = io.NopCloser(bytes.NewReader(body))
		other.Header.Set("Authorization", strings.Replace(req.Header.Get("Authorization"), `oauth_nonce="`, `oauth_nonce="other`, 1))
		if res, err := w.region.RoundTripper().RoundTrip(other); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("the other's: %v, %v", res, err)
		}
		return w.region.RoundTripper().RoundTrip(req)
	})
	s := w.asked(1)
	s.SystemID = id
	if r := w.alone("r", s, "apply_roce_phase2"); !raced || r.Status != chain.Completed || stateOf(t, r).RoCEAddresses != 1 {
		t.Errorf("raced %v: %s, %+v\n%s", raced, r.Status, stateOf(t, r).Warnings, w.story("r"))
	}
}

func TestRoCEAddressesAreSetOnTheirInterfaces(t *testing.T) {
	w := newWorld(t, "3.6")
	b := w.box(1)
	b.NICs[1].Network = 1
	id := w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: b, Status: maassim.Ready})
	w.book.RoCE = []broker.RoCEAssignment{{SiteID: w.site.ID, Hostname: "c01", Interface: "eno8403", IPv4CIDR: "172.30.9.61/31"}}
	s := w.asked(1)
	s.SystemID = id
	r := w.alone("r", s, "apply_roce_phase2")
	if r.Status != chain.Completed || stateOf(t, r).RoCEAddresses != 1 || !slices.Equal(w.writes(), []string{"link_subnet"}) {
		t.Errorf("%s %+v, changes %v", r.Status, r.Failure, w.writes())
	}
	w.freshStore()
	if r := w.alone("r", s, "apply_roce_phase2"); r.Status != chain.Completed || len(w.writes()) != 1 {
		t.Errorf("again: %s %+v, changes %v", r.Status, r.Failure, w.writes())
	}
}

func TestTheInterfaceThatBootsIsLinked(t *testing.T) {
	for name, row := range map[string]struct {
		network int
		strict  bool
		status  chain.Status
		code    string
		writes  int
	}{
		"linked already":        {0, true, chain.Completed, "", 0},
		"miswired":              {1, true, chain.FailedManual, "pxe_interface_miswired", 0},
		"miswired, not strict":  {1, false, chain.Completed, "", 0},
		"not linked any more":   {-1, true, chain.Completed, "", 1},
		"not there by its name": {-2, true, chain.FailedManual, "pxe_interface_missing", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.profile.Policy.StrictPXEPreflight = row.strict
			b := w.box(1)
			b.NICs[0].Network = max(row.network, 0)
			if row.network == -2 {
				b.NICs[0].Name = "ens3"
			}
			id := w.region.Arrange(maassim.Arranged{Hostname: "c01", Hardware: b, Status: maassim.Ready})
			if row.network == -1 {
				w.unlink(id)
			}
			before := len(w.writes())
			s := w.asked(1)
			s.SystemID = id
			r := w.alone("r", s, "ensure_pxe_interface_auto")
			if r.Status != row.status || row.code != "" && r.Failure.Code != row.code || len(w.writes())-before != row.writes {
				t.Errorf("%s %+v, changes %v", r.Status, r.Failure, w.writes()[before:])
			}
			if got := stateOf(t, r).Warnings; (len(got) > 0) != (row.network == 1 && !row.strict) {
				t.Errorf("warnings %q", got)
			}
		})
	}
}

// Stage names are stored, so the names and their order are fixed.
func TestTheStagesAreThoseThatAreStored(t *testing.T) {
	w := newWorld(t, "3.6")
	plan, err := chain.Plan((&onboarding.Chains{}).Onboarding(), w.asked(1))
	if err != nil {
		t.Fatal(err)
	}
	var main, rescues, destroys []string
	for _, p := range plan {
		switch {
		case p.Rescues != "":
			rescues = append(rescues, p.Rescues+" "+p.Stage)
		default:
			main = append(main, p.Stage)
		}
		if p.Destructive != "" {
			destroys = append(destroys, p.Stage)
		}
		if p.Pivot != (p.Stage == "wait_for_deployed") || p.Optional != (p.Stage == "apply_roce_phase2") {
			t.Errorf("%+v", p)
		}
	}
	if !slices.Equal(main, stages) {
		t.Errorf("%v", main)
	}
	if want := []string{"wait_for_deployed classify_deploy_failure", "wait_for_deployed recover_for_datasource_retry"}; !slices.Equal(rescues, want) {
		t.Errorf("%v", rescues)
	}
	if want := []string{"commission_node", "deploy_via_maas", "recover_for_datasource_retry"}; !slices.Equal(destroys, want) {
		t.Errorf("%v", destroys)
	}
}

// An enrolled agent is asked to seed hardware sync, once an attempt.
func TestAnAgentSeedsHardwareSyncAnew(t *testing.T) {
	w := newWorld(t, "3.6")
	w.region.PlugIn(w.box(1))
	w.region.Inject(fault(maassim.SyncStops, ""))
	id := w.start(1)
	w.settle(nil)
	n := w.node("c01")
	if r := w.run(id); r.Failure == nil || r.Failure.Code != "failed_hw_sync_health" || w.book.Reseeds(n.ID) != 1 {
		t.Fatalf("%s %+v, %d seeds", r.Status, r.Failure, w.book.Reseeds(n.ID))
	}
	w.act(id, chain.RetryStage)
	w.settle(nil)
	if w.book.Reseeds(n.ID) != 2 {
		t.Errorf("%d seeds, want one an attempt", w.book.Reseeds(n.ID))
	}
}

// A machine is the run's by its whole mark and the owner who wrote the mark, and by nothing less.
func TestAForgedMarkIsNone(t *testing.T) {
	for name, row := range map[string]struct {
		owner, node, run string
		claim            bool
		ours             bool
	}{
		"the run's":                {"admin", "n-1", "r", true, true},
		"written by somebody else": {"bob", "n-1", "r", true, false},
		"of another node":          {"admin", "n-2", "r", true, false},
		"of another run":           {"admin", "n-1", "r2", true, false},
		"no mark":                  {"admin", "", "", true, false},
		"no intent":                {"admin", "n-1", "r", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "3.6")
			a := maassim.Arranged{Hostname: "c01", Hardware: w.box(1), Status: maassim.Deployed, Owner: row.owner, Series: "ubuntu/noble"}
			if row.node != "" {
				a.Annotations = map[string]string{"hostler-node": row.node, "hostler-run": row.run}
			}
			s := w.asked(1)
			s.SystemID, s.NodeID = w.region.Arrange(a), "n-1"
			w.book.ID = "n-1"
			if _, err := w.book.Prepare(ctx, onboarding.NewNode{RunID: "r", Site: "dc1", Hostname: "c01", MAASSystemID: s.SystemID}); err != nil {
				t.Fatal(err)
			}
			if row.claim {
				s.Claim = &onboarding.Claim{SystemID: s.SystemID, NodeID: "n-1", User: "admin"}
			}
			r := w.alone("r", s, "deploy_via_maas", "wait_for_deployed")
			if row.ours != (r.Status == chain.Completed) || !row.ours && r.Failure.Code != "machine_not_ours" {
				t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			if !row.ours {
				w.act("r", chain.Cancel)
			}
			w.settle(nil)
			if len(w.writes()) > 0 {
				t.Errorf("it changes %v", w.writes())
			}
		})
	}
}

// A machine that was deployed before the cancel is left alone, and its node is quarantined.
func TestWhatIsLeftOfACancelledNodeIsQuarantined(t *testing.T) {
	w := newWorld(t, "3.6")
	w.region.PlugIn(w.box(1))
	id := w.start(1)
	w.settle(func() {
		if r := w.run(id); r.Stage == "wait_for_agent_enrollment" && r.Status == chain.Running {
			w.act(id, chain.Cancel)
		}
	})
	if n := w.node("c01"); n.Status != broker.Quarantined || !strings.Contains(n.StatusReason, "cancelled") {
		t.Errorf("%+v", n)
	}
}

// A node was activated outside its run: no undo of the run touches the machine, and a cancel leaves
// the machine alone.
func TestTheMachineOfANodeInUseIsNotTakenBack(t *testing.T) {
	for _, status := range []broker.NodeStatus{broker.Active, broker.Offline, broker.Draining} {
		t.Run(string(status), func(t *testing.T) {
			w := newWorld(t, "3.6")
			b := w.box(1)
			w.region.PlugIn(b)
			w.region.Inject(fault(maassim.SyncStops, ""))
			id := w.start(1)
			w.settle(nil)
			n := w.node("c01")
			if r := w.run(id); r.Stage != "wait_for_hardware_sync_healthy" || n.Epoch == 0 {
				t.Fatalf("it stopped at %s, node %+v", r.Stage, n)
			}
			w.book.Put(n.ID, status)
			w.act(id, chain.RestartClean)
			w.settle(nil)
			r, m := w.run(id), w.machine(b.Serial)
			if r.Status != chain.FailedManual || r.Failure.Code != "node_in_use" || m.Status != maassim.Deployed || w.node("c01").Status != status {
				t.Fatalf("%s (%+v), machine %v, node %s", r.Status, r.Failure, m.Status, w.node("c01").Status)
			}
			w.act(id, chain.Cancel)
			w.settle(nil)
			left := broker.Quarantined
			if status == broker.Draining {
				left = status // the node is on its way out of use
			}
			if r, m := w.run(id), w.machine(b.Serial); r.Status != chain.Cancelled || m.Status != maassim.Deployed || w.node("c01").Status != left {
				t.Errorf("cancelled it is %s, machine %v, node %s", r.Status, m.Status, w.node("c01").Status)
			}
		})
	}
}

// Waiting runs ask for their own machines, all in one call, and not for those of the whole region.
func TestWhoWaitsAsksForWhatIsWaitedFor(t *testing.T) {
	w := newWorld(t, "3.6")
	for n := range 5 {
		w.region.Arrange(maassim.Arranged{Hostname: hostname(10 + n), Hardware: w.box(10 + n), Status: maassim.Deployed, Owner: "bob"})
	}
	whole, together := 0, 0
	w.guard = guardFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/machines/") && r.URL.Query().Get("op") == "" {
			switch ids := r.URL.Query()["id"]; len(ids) {
			case 0:
				whole++
			case 2:
				together++
			default:
				if len(ids) > 2 {
					t.Errorf("two are waited for, and %d are asked for", len(ids))
				}
			}
		}
		return w.region.RoundTripper().RoundTrip(r)
	})
	for n := 1; n <= 2; n++ {
		w.region.PlugIn(w.box(n))
		w.start(n)
	}
	w.settle(nil)
	for _, id := range []string{"r1", "r2"} {
		if r := w.run(id); r.Status != chain.Completed {
			t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
	}
	if whole > 2 || together < 10 { // each run searches once
		t.Errorf("%d lists of all, %d of the two that are waited for", whole, together)
	}
	// No run waits for the first two machines any more.
	w.clock.Advance(2 * time.Minute)
	together = 0
	w.region.PlugIn(w.box(3))
	w.start(3)
	w.settle(nil)
	if r := w.run("r3"); r.Status != chain.Completed || together > 0 {
		t.Errorf("%s at %s: %+v, two were asked for %d times", r.Status, r.Stage, r.Failure, together)
	}
}

// The setting is the region's, and each deployment wants its own interval.
func TestTwoSyncIntervalsOfOneRegion(t *testing.T) {
	w := newWorld(t, "3.6")
	for n := 1; n <= 2; n++ {
		w.region.Arrange(maassim.Arranged{Hostname: hostname(n), Hardware: w.box(n), Status: maassim.Ready})
	}
	w.profile.Policy.HardwareSyncInterval = "20m"
	w.start(1)
	w.profile.Policy.HardwareSyncInterval = "30m"
	w.start(2)
	w.settle(nil)
	for _, id := range []string{"r1", "r2"} {
		if r := w.run(id); r.Status != chain.Completed || len(stateOf(t, r).Warnings) > 0 {
			t.Errorf("%s at %s: %+v, %q", r.Status, r.Stage, r.Failure, stateOf(t, r).Warnings)
		}
	}
	if n := w.region.Count("set_config"); n != 2 {
		t.Errorf("the setting was changed %d times", n)
	}
}

// A region carries a change out late, after no answer came or the broker died, and the run was
// cancelled meanwhile. The machine is released nevertheless, and the run does not end before that
// is final.
func TestWhatIsCarriedOutLateIsGivenBack(t *testing.T) {
	for _, op := range []string{"allocate", "deploy", "release"} {
		for _, dies := range []bool{false, true} {
			for _, after := range []time.Duration{70 * time.Second, 150 * time.Second} {
				t.Run(fmt.Sprintf("%s, the broker dies: %v, after %v", op, dies, after), func(t *testing.T) {
					carriedOutLate(t, op, dies, after, 0)
				})
			}
		}
	}
}

// The wait for a late change is measured by the store's clock, which all brokers share: the clock
// of the broker that asked may be wrong.
func TestWhatIsCarriedOutLateIsGivenBackByABrokerWhoseClockIsBehind(t *testing.T) {
	for _, op := range []string{"allocate", "deploy", "release"} {
		t.Run(op, func(t *testing.T) { carriedOutLate(t, op, false, 150*time.Second, 4*time.Minute) })
	}
}

func carriedOutLate(t *testing.T, op string, dies bool, after, behind time.Duration) {
	w := newWorld(t, "3.6")
	w.behind = behind
	b := w.box(1)
	w.region.PlugIn(b)
	var kept *http.Request
	var given time.Time
	lost := false
	w.guard = guardFunc(func(req *http.Request) (*http.Response, error) {
		if kept == nil && req.URL.Query().Get("op") == op {
			kept = req.Clone(ctx)
			req.Body, kept.Body = twice(t, req.Body)
			given, lost = w.clock.Now(), dies
			if !dies {
				w.clock.Advance(time.Minute)
				given = w.clock.Now()
			}
			return nil, io.ErrUnexpectedEOF
		}
		return w.region.RoundTripper().RoundTrip(req)
	})
	w.lossy.Fate = func(int) chaintest.Fate {
		defer func() { lost = false }()
		return map[bool]chaintest.Fate{true: chaintest.Lost}[lost]
	}
	id := w.start(1)
	cancelled, done := false, false
	carry := func() {
		if kept == nil || done || w.clock.Now().Sub(given) < after {
			return
		}
		done = true
		if _, err := w.region.RoundTripper().RoundTrip(kept); err != nil {
			t.Fatal(err)
		}
	}
	w.settle(func() {
		carry()
		if r := w.run(id); !cancelled && (kept != nil || op == "release" && r.Stage == "wait_for_deployed") {
			cancelled = true
			w.act(id, chain.Cancel)
		}
	})
	if r, m := w.run(id), w.machine(b.Serial); r.Status != chain.Cancelled || m.Status != maassim.Ready || m.Owner != "" || !done {
		t.Errorf("run %s at %s: %+v; machine %v of %q; late %v", r.Status, r.Stage, r.Failure, m.Status, m.Owner, done)
	}
}

// An erase on release has no time limit.
func TestAnEraseIsWaitedForHoweverLongItTakes(t *testing.T) {
	w := newWorld(t, "3.6")
	b := w.box(1)
	w.region.PlugIn(b)
	w.region.Timing = maassim.Usual
	w.region.Timing.Erase = 3 * time.Hour
	id := w.start(1)
	cancelled := false
	w.settle(func() {
		if r := w.run(id); !cancelled && r.Stage == "wait_for_deployed" {
			cancelled = true
			w.call("POST", "maas/?op=set_config", "name=enable_disk_erasing_on_release&value=true")
			w.act(id, chain.Cancel)
		}
	})
	r := w.run(id)
	if m, s := w.machine(b.Serial), stateOf(t, r); r.Status != chain.Cancelled || m.Status != maassim.Ready || s.Erased < 2*time.Hour || len(s.Warnings) != 1 {
		t.Errorf("%s at %s: %+v; machine %v; erased %v; %q", r.Status, r.Stage, r.Failure, m.Status, s.Erased, s.Warnings)
	}
}
