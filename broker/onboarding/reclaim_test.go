package onboarding_test

import (
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
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/test/maassim"
)

// The node keeps its id and its status, and its agent enrols by this run's token.
func TestAReimageKeepsTheNode(t *testing.T) {
	w := newWorld(t, "3.6")
	b := w.box(1)
	w.region.PlugIn(b)
	w.start(1)
	w.settle(nil)
	before, m := w.node("c01"), w.machine(b.Serial)
	w.book.Turn(before.ID, "t1")
	if err := w.reclaims("t1", "reimage", m.SystemID, func(q *onboarding.ReclaimRequest) { q.NodeID, q.Epoch = before.ID, before.Epoch }); err != nil {
		t.Fatal(err)
	}
	w.settle(nil)
	r, s, n, again := w.run("t1"), w.turned("t1"), w.node("c01"), w.machine(b.Serial)
	if r.Status != chain.Completed || len(w.book.All()) != 1 || n.ID != before.ID || n.Status != broker.Retired || n.Epoch != before.Epoch+1 {
		t.Errorf("%s at %s (%+v); node %+v", r.Status, r.Stage, r.Failure, n)
	}
	if again.Annotations["hostler-run"] != "t1" || again.Annotations["hostler-node"] != before.ID || again.Token == m.Token || !s.Reclaim.TokenDiffers || s.IPMIIP != b.BMC.Address {
		t.Errorf("machine %+v; %+v", again, s.Reclaim)
	}
	if hardware(w, "deploy") != 2 || hardware(w, "release") != 1 {
		t.Errorf("%d deployments, %d releases", hardware(w, "deploy"), hardware(w, "release"))
	}
}

// The machine's own token must change, also where the profile requires no hardware sync. Where the
// token is unchanged, the run stops.
func TestAMachineThatKeepsItsTokenIsNotHandedOn(t *testing.T) {
	for _, sync := range []bool{true, false} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("hardware sync %v, token kept %v", sync, kept), func(t *testing.T) {
				w := newWorld(t, "3.6")
				w.profile.Policy.RequireHWSync = sync
				if kept {
					w.region.Inject(fault(maassim.TokenKept, "", -1))
				}
				if err := w.reclaims("t1", "reimage", w.node1(nil), nil); err != nil {
					t.Fatal(err)
				}
				w.settle(nil)
				r, s := w.run("t1"), w.turned("t1")
				if kept && (r.Status != chain.FailedManual || r.Stage != "ensure_hardware_sync_configured" || r.Failure.Code != "maas_token_not_rotated" || s.Reclaim.TokenDiffers) {
					t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
				}
				if !kept && (r.Status != chain.Completed || !s.Reclaim.TokenDiffers) {
					t.Errorf("%s at %s: %+v; %+v", r.Status, r.Stage, r.Failure, s.Reclaim)
				}
			})
		}
	}
}

// No trace of a run contains the machine's token or any other secret.
func TestARunThatTakesAMachineBackKeepsNoSecret(t *testing.T) {
	w := newWorld(t, "3.6")
	id := w.node1(nil)
	w.region.Inject(fault(maassim.Unavailable, "release"), fault(maassim.EraseFails, "", 2))
	if err := w.reclaims("t1", "reimage", id, erasing("secure")); err != nil {
		t.Fatal(err)
	}
	secrets := []string{"bmc-secret", strings.Split(w.region.APIKey(), ":")[2]}
	w.guard = guardFunc(func(req *http.Request) (*http.Response, error) {
		res, err := w.region.RoundTripper().RoundTrip(req)
		if err == nil && req.URL.Query().Get("op") == "get_token" {
			var token map[string]string
			var again io.ReadCloser
			res.Body, again = twice(t, res.Body)
			if json.NewDecoder(again).Decode(&token) == nil {
				for _, s := range token {
					secrets = append(secrets, s)
				}
			}
		}
		return res, err
	})
	w.settle(func() { secrets = append(secrets, w.book.Open()...) })
	left, err := json.Marshal([]any{w.run("t1"), w.history("t1"), w.memory.Outbox(), w.memory.Audit()})
	if err != nil || w.run("t1").Status != chain.Completed {
		t.Fatal(err, w.run("t1").Status)
	}
	slices.Sort(secrets)
	secrets = slices.Compact(secrets)
	for _, s := range secrets {
		if s != "" && strings.Contains(string(left)+string(w.run("t1").State), s) {
			t.Errorf("a secret of %d bytes is in what the run left", len(s))
		}
	}
	if len(secrets) < 8 {
		t.Errorf("only %d secrets were seen", len(secrets))
	}
}

// What is done already is not done again, by a rerun or by restart_clean.
func TestAReimageThatBeginsAgain(t *testing.T) {
	for _, c := range []struct {
		action            chain.Action
		releases, deploys int
	}{{chain.Rerun, 1, 1}, {chain.RestartClean, 2, 2}, {chain.Cancel, 1, 1}} {
		t.Run(string(c.action), func(t *testing.T) {
			w := newWorld(t, "3.6")
			w.silent = true
			if err := w.reclaims("t1", "reimage", w.node1(nil), nil); err != nil {
				t.Fatal(err)
			}
			w.settle(nil)
			if r := w.run("t1"); r.Stage != "wait_for_agent_enrollment" || !r.Status.Stopped() {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			w.silent = false
			w.act("t1", c.action)
			w.settle(nil)
			r, s, n := w.run("t1"), w.turned("t1"), w.book.All()[0]
			want, status := chain.Completed, broker.Retired
			if c.action == chain.Cancel {
				want, status = chain.Cancelled, broker.Quarantined
			}
			if r.Status != want || n.Status != status || s.NodeID != "n-0001" || hardware(w, "release") != c.releases || hardware(w, "deploy") != c.deploys || w.machine(maassim.Box(1).Serial).Status != maassim.Deployed {
				t.Errorf("%s at %s: %+v; node %s, %d releases, %d deployments\n%s", r.Status, r.Stage, r.Failure, n.Status, hardware(w, "release"), hardware(w, "deploy"), w.story("t1"))
			}
		})
	}
}

// Cancelled when the machine is Ready, claimed or deploying: the machine then has no owner, and the
// node still exists.
func TestAReimageThatIsCancelledBeforeItIsDeployed(t *testing.T) {
	for _, stage := range []string{"configure_storage", "render_cloud_init", "deploy_via_maas", "wait_for_deployed"} {
		t.Run(stage, func(t *testing.T) {
			w := newWorld(t, "3.6")
			if err := w.reclaims("t1", "reimage", w.node1(nil), nil); err != nil {
				t.Fatal(err)
			}
			cancelled := false
			w.settle(func() {
				if r := w.run("t1"); !cancelled && r.Stage == stage {
					cancelled = true
					w.act("t1", chain.Cancel)
				}
			})
			r, m, n := w.run("t1"), w.machine(maassim.Box(1).Serial), w.book.All()[0]
			if r.Status != chain.Cancelled || m.Status != maassim.Ready || m.Owner != "" || n.Status != broker.Retired || w.turned("t1").NodeID != "n-0001" || len(w.book.Open()) > 0 {
				t.Errorf("%s at %s: %+v; machine %s of %q, node %s, tokens %v", r.Status, r.Stage, r.Failure, m.Status, m.Owner, n.Status, len(w.book.Open()))
			}
		})
	}
}

// A site that could not redeploy the machine is refused before the machine is released.
func TestAMachineIsNotReleasedWhereItCouldNotBeDeployed(t *testing.T) {
	w := newWorld(t, "3.6")
	id := w.node1(nil)
	w.profile.Policy.DistroSeries = "gpuaas-none"
	if err := w.reclaims("t1", "reimage", id, nil); err != nil {
		t.Fatal(err)
	}
	w.settle(nil)
	if r := w.run("t1"); r.Stage != "load_site_config" || r.Failure == nil || r.Failure.Code != "site_not_ready" || len(w.writes()) > 0 {
		t.Errorf("%s at %s: %+v, %v", r.Status, r.Stage, r.Failure, w.writes())
	}
	w.act("t1", chain.Cancel)
	w.settle(nil)
	if err := w.reclaims("t2", "removal", id, nil); err != nil { // a removal deploys nothing
		t.Fatal(err)
	}
	w.book.Turn("n-0001", "t2")
	w.settle(nil)
	if r := w.run("t2"); r.Status != chain.Completed {
		t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
}

// An erase has no time limit.
func TestTheEraseOfAReleaseIsWaitedForHoweverLongItTakes(t *testing.T) {
	w := newWorld(t, "3.6")
	w.region.Timing = maassim.Usual
	w.region.Timing.Erase = 30 * time.Hour
	if err := w.reclaims("t1", "removal", w.node1(nil), erasing("secure")); err != nil {
		t.Fatal(err)
	}
	w.settle(nil)
	if r, s := w.run("t1"), w.turned("t1"); r.Status != chain.Completed || s.Reclaim.Did != "secure" {
		t.Errorf("%s at %s: %+v; %+v", r.Status, r.Stage, r.Failure, s.Reclaim)
	}
}

// An invalid request is refused before a run exists.
func TestWhatMayBeTakenBack(t *testing.T) {
	w := newWorld(t, "3.6")
	good := onboarding.ReclaimRequest{NodeID: "n-1", Hostname: "c01", MAASSystemID: "abc123", Redeploys: true}
	for name, row := range map[string]struct {
		with func(q *onboarding.ReclaimRequest, s *broker.Site, p *broker.Profile, k *broker.SKU)
		code string
	}{
		"as it should be":    {func(*onboarding.ReclaimRequest, *broker.Site, *broker.Profile, *broker.SKU) {}, ""},
		"belongs to no node": {func(q *onboarding.ReclaimRequest, _ *broker.Site, _ *broker.Profile, _ *broker.SKU) { q.NodeID = "" }, "reclaim_invalid"},
		"not valid": {func(q *onboarding.ReclaimRequest, _ *broker.Site, _ *broker.Profile, _ *broker.SKU) {
			q.Hostname = "a b"
		}, "reclaim_invalid"},
		"a path for an id": {func(q *onboarding.ReclaimRequest, _ *broker.Site, _ *broker.Profile, _ *broker.SKU) {
			q.MAASSystemID = "../use"
		}, "reclaim_invalid"},
		"no such erase": {func(q *onboarding.ReclaimRequest, _ *broker.Site, _ *broker.Profile, _ *broker.SKU) {
			q.Erase = "overwrite"
		}, "reclaim_invalid"},
		"another site's profile": {func(_ *onboarding.ReclaimRequest, _ *broker.Site, p *broker.Profile, _ *broker.SKU) { p.SiteID = "x" }, "reclaim_invalid"},
		"no SKU":                 {func(_ *onboarding.ReclaimRequest, _ *broker.Site, _ *broker.Profile, k *broker.SKU) { k.ID = "" }, "reclaim_invalid"},
		"no SKU, and not deployed": {func(q *onboarding.ReclaimRequest, _ *broker.Site, _ *broker.Profile, k *broker.SKU) {
			q.Redeploys, k.ID = false, ""
		}, ""},
		"deployed and forgotten": {func(q *onboarding.ReclaimRequest, _ *broker.Site, _ *broker.Profile, _ *broker.SKU) {
			q.RemoveRecord = true
		}, "reclaim_invalid"},
		"a site that is closed": {func(_ *onboarding.ReclaimRequest, s *broker.Site, _ *broker.Profile, _ *broker.SKU) {
			s.Status = broker.SiteDisabled
		}, "site_disabled"},
		"a profile that is": {func(_ *onboarding.ReclaimRequest, _ *broker.Site, p *broker.Profile, _ *broker.SKU) {
			p.Status = broker.SiteDisabled
		}, "profile_disabled"},
		"a removal at a closed site": {func(q *onboarding.ReclaimRequest, s *broker.Site, _ *broker.Profile, _ *broker.SKU) {
			q.Redeploys, s.Status = false, broker.SiteDisabled
		}, ""},
	} {
		q, site, profile, sku := good, w.site, w.profile, w.sku
		row.with(&q, &site, &profile, &sku)
		s, locks, err := onboarding.NewReclaim(site, profile, sku, q)
		if (err == nil) != (row.code == "") || err != nil && broker.AsError(err).Code != row.code {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (!slices.Equal(locks, []string{"hostname/dc1/c01", "machine/dc1/abc123"}) || s.Reclaim.Erase != "none" || s.Reclaim.Fallback != q.Redeploys) {
			t.Errorf("%s: locks %v, %+v", name, locks, s.Reclaim)
		}
	}
	good.IPMIIP = "10.9.0.1"
	if _, locks, err := onboarding.NewReclaim(w.site, w.profile, w.sku, good); err != nil || !slices.Contains(locks, "ipmi/dc1/10.9.0.1") {
		t.Errorf("%v, %v", locks, err)
	}
	if s, _, err := onboarding.NewReclaim(w.site, broker.Profile{}, broker.SKU{}, onboarding.ReclaimRequest{NodeID: "n-1", Hostname: "c01", MAASSystemID: "abc123"}); err != nil || s.Policy.RetryBackoffSeconds == 0 {
		t.Errorf("without a profile: %v", err)
	}
}
