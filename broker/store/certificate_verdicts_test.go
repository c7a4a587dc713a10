package store_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// purges judges that a certificate lacks a purge where the policy asks for it, and counts its calls.
type purges struct{ calls atomic.Int64 }

func (j *purges) lacks(_ []byte, p broker.TurnoverPolicy) []string {
	if j.calls.Add(1); p.DiskGrade == "purge" {
		return []string{"method_below_policy"}
	}
	return nil
}

// eachJudging runs a test on each engine, with a judge of certificates.
func eachJudging(t *testing.T, f func(t *testing.T, db *store.DB, clock *storetest.Clock, j *purges)) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			j, clock := &purges{}, storetest.NewClock()
			f(t, judging(t, storetest.URL(t, engine), clock.Now, j.lacks), clock, j)
		})
	}
}

func judging(t testing.TB, url string, now func() time.Time, judge store.JudgeCertificate) *store.DB {
	t.Helper()
	db := must(store.Open(ctx, store.Options{URL: url, Now: now, Judge: judge}))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// grade gives the default profile of a site a grade of disks.
func grade(db *store.DB, siteID, grade string) error {
	_, err := db.UpdateProfile(ctx, admin, siteID, "", "audit", func(p *broker.Profile) error { p.Policy.DiskGrade = grade; return nil })
	return err
}

// A free node whose certificate does not suffice by a stricter policy is handed to nobody, and says so. An
// allocated one is left alone. A laxer policy takes that back, and never mends what fell short at issue.
func TestAStricterPolicyHoldsFreeNodes(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, clock *storetest.Clock, j *purges) {
		s := newSite(t, db, "dc1")
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 4)
		heard := func() {
			for _, n := range nodes {
				ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
			}
		}
		a := must(asks(db, "a-1", "h100", 1))(t) // of the first node
		must(db.TransitionAllocation(ctx, admin, a.ID, toProvisioning))(t)
		for _, n := range nodes[:3] { // the last one never had a tenant
			certified(t, db, n, "c-"+n.ID, "r-"+n.ID, n.ID != nodes[2].ID)
		}
		is := func(when string, want ...string) {
			t.Helper()
			heard()
			swept(t, db)
			for i, n := range nodes {
				if got := word(t, db, n.ID); got != want[i] {
					t.Errorf("%s: node %d is %q, want %q", when, i, got, want[i])
				}
			}
		}
		is("before", "allocated allocation_live", "available", "held certificate_falls_short", "available")
		swept(t, db)
		if n := j.calls.Load(); n != 2 { // of the two free nodes with a certificate
			t.Errorf("%d files were judged, want 2", n)
		}
		clock.Advance(time.Minute)
		ok(t, grade(db, s.ID, "purge"))
		if codes := reasons(t, db, nodes[1]); !slices.Equal(codes, []string{"certificate_below_policy"}) {
			t.Errorf("before the sweep: %q", codes)
		}
		is("stricter", "allocated allocation_live", "held certificate_below_policy", "held certificate_falls_short certificate_below_policy", "available")
		if below := must(db.BelowPolicyNodes(ctx))(t); len(below) != 2 || !below[0].Since.Equal(clock.Now()) || below[0].Site != "dc1" {
			t.Errorf("below the policy are %+v at %v", below, clock.Now())
		}
		_, err := letsIn(db, nodes[1], "by-hand", "acme", false)
		refused(t, err, "certificate_below_policy")
		if _, err := letsIn(db, nodes[0], a.ID, "p-1", false); err != nil {
			t.Errorf("the allocation from before is not provisioned: %v", err)
		}
		for _, n := range must(db.JudgedNodes(ctx, "h100", nil))(t) {
			if n.ID == nodes[1].ID && (len(n.Reasons) != 1 || n.Reasons[0].Code != "certificate_below_policy" || n.Reasons[0].Next == "") {
				t.Errorf("explained as %+v", n.Reasons)
			}
		}
		if a := must(asks(db, "a-2", "h100", 1))(t); !slices.Equal(a.NodeIDs, []string{nodes[3].ID}) {
			t.Errorf("placed on %v", a.NodeIDs)
		}
		_, err = asks(db, "a-3", "h100", 1)
		refused(t, err, "sku_unavailable")

		clock.Advance(2 * time.Minute)
		ok(t, grade(db, s.ID, "none"))
		is("laxer", "allocated allocation_live", "available", "held certificate_falls_short", "allocated allocation_live")
		clock.Advance(time.Minute)
		ok(t, grade(db, s.ID, "purge"))
		clock.Advance(time.Minute)
		must(db.Transition(ctx, admin, nodes[1].ID, store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "a test machine"}))(t)
		is("overridden", "allocated allocation_live", "available", "held certificate_falls_short certificate_below_policy", "allocated allocation_live")
		clock.Advance(store.TurnoverWithin)
		heard()
		swept(t, db)
		if alone := must(db.LeftAlone(ctx, []string{"dc1"}))(t); len(alone) != 1 || alone[0].Nodes != 1 {
			t.Errorf("left alone are %+v", alone)
		}
	})
}

// An override of what a tenant left behind does not let a policy pass that becomes stricter later, nor the end of the
// certificate's validity.
func TestAnOverrideOfAMissingTurnoverLetsNothingElsePass(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, clock *storetest.Clock, _ *purges) {
		s := newSite(t, db, "dc1")
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		certified(t, db, n, "c-1", "r-1", true)
		ends(t, db, must(letsIn(db, n, "by-hand", "acme", false))(t), done)
		leaves(t, db, n, "by-hand")
		is := func(when, want string) {
			t.Helper()
			ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
			swept(t, db)
			if got := word(t, db, n.ID); got != want {
				t.Errorf("%s: the node is %q, want %q", when, got, want)
			}
		}
		is("left", "in_turnover turnover_missing")
		clock.Advance(time.Minute)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "a test machine"}))(t)
		is("overridden", "available")
		clock.Advance(time.Minute)
		ok(t, grade(db, s.ID, "purge"))
		if codes := reasons(t, db, n); !slices.Equal(codes, []string{"certificate_below_policy"}) {
			t.Errorf("before the sweep: %q", codes)
		}
		is("stricter", "held certificate_below_policy")
		_, err := asks(db, "a-1", "h100", 1)
		refused(t, err, "sku_unavailable")
		if below := must(db.BelowPolicyNodes(ctx))(t); len(below) != 1 || !below[0].Since.Equal(clock.Now()) {
			t.Errorf("below the policy are %+v at %v", below, clock.Now())
		}
		ok(t, grade(db, s.ID, "none"))
		is("laxer", "available")
		clock.Advance(time.Hour)
		is("later than the certificate", "held certificate_expired")
	})
}

// A placement judges a certificate itself that nobody has judged by the policy in force, and a store without a
// judge hands out no such node.
func TestAPlacementJudgesTheCertificateItself(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, clock *storetest.Clock, j *purges) {
		s := newSite(t, db, "dc1")
		offered(t, db, "h100")
		nodes := stock(t, db, "h100", "dc1", 3)
		for _, n := range nodes[1:] {
			certified(t, db, n, "c-"+n.ID, "r-"+n.ID, true)
		}
		if h := must(db.JudgedNodes(ctx, "h100", nil))(t); len(h[1].Reasons)+len(h[2].Reasons) > 0 {
			t.Errorf("new certificates are explained as %+v", h)
		}
		j.calls.Store(0)
		if a := must(asks(db, "a-1", "h100", 2))(t); !slices.Equal(a.NodeIDs, []string{nodes[0].ID, nodes[1].ID}) || j.calls.Load() == 0 {
			t.Errorf("placed on %v, after %d judgements", a.NodeIDs, j.calls.Load())
		}
		ok(t, grade(db, s.ID, "purge"))
		_, err := asks(db, "a-2", "h100", 1)
		refused(t, err, "sku_unavailable")
	})
	db := judging(t, storetest.URL(t, "sqlite"), nil, nil)
	offered(t, db, "h100")
	n := stock(t, db, "h100", "dc1", 1)[0]
	certified(t, db, n, "c-1", "r-1", true)
	if codes := reasons(t, db, n); !slices.Equal(codes, []string{"certificate_not_judged"}) {
		t.Errorf("without a judge: %q", codes)
	}
	if h := must(db.JudgedNodes(ctx, "h100", nil))(t)[0]; len(h.Reasons) != 1 || h.Reasons[0].Code != "certificate_not_judged" || h.Reasons[0].Next == "" {
		t.Errorf("without a judge it is explained as %+v", h)
	}
	swept(t, db)
	_, err := asks(db, "a-1", "h100", 1)
	refused(t, err, "sku_unavailable")
}

// A shorter validity counts for certificates that there are.
func TestAShorterValidityCountsAtOnce(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, clock *storetest.Clock, _ *purges) {
		s := newSite(t, db, "dc1")
		n := memberAt(t, db, "gpu-1", "dc1")
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
		certified(t, db, n, "c-1", "r-1", true)
		clock.Advance(10 * time.Minute)
		for seconds, want := range map[int]string{3600: "available", 601: "available", 600: "held certificate_expired"} {
			must(db.UpdateProfile(ctx, admin, s.ID, "", "audit", func(p *broker.Profile) error { p.Policy.CertificateValidSeconds = seconds; return nil }))(t)
			ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
			swept(t, db)
			if got := word(t, db, n.ID); got != want {
				t.Errorf("valid for %d s: %q, want %q", seconds, got, want)
			}
		}
	})
}

// The availability on record and the verdict beside it are of one judgement, also if the policy changes between the two
// looks of a sweep: otherwise the node would be below the policy since the year 1970.
func TestAPolicyThatChangesDuringASweepLeavesNoOldVerdict(t *testing.T) {
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			var db *store.DB
			var site broker.Site
			j, clock, during := &purges{}, storetest.NewClock(), false
			db = judging(t, storetest.URL(t, engine), clock.Now, func(file []byte, p broker.TurnoverPolicy) []string {
				if during {
					during = false
					clock.Advance(time.Minute)
					ok(t, grade(db, site.ID, "purge"))
				}
				return j.lacks(file, p)
			})
			site = newSite(t, db, "dc1")
			n := memberAt(t, db, "gpu-1", "dc1")
			ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
			must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
			certified(t, db, n, "c-1", "r-1", true)
			during = true
			must(db.SweepAvailability(ctx))(t)
			if got := word(t, db, n.ID); during || got != "held certificate_below_policy" {
				t.Fatalf("the node is %q", got)
			}
			if below := must(db.BelowPolicyNodes(ctx))(t); len(below) != 1 || !below[0].Since.Equal(clock.Now()) {
				t.Errorf("below the policy are %+v at %v", below, clock.Now())
			}
			if alone := must(db.LeftAlone(ctx, nil))(t); len(alone) > 0 {
				t.Errorf("left alone are %+v", alone)
			}
		})
	}
}

// A certificate knows whether the policy by which it fell short still stands: another turnover would end as the last one.
func TestACertificateKnowsWhetherItsPolicyStands(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, clock *storetest.Clock, _ *purges) {
		s := newSite(t, db, "dc1")
		n := memberAt(t, db, "gpu-1", "dc1")
		is := func(when string, want bool) {
			t.Helper()
			h := must(db.Handout(ctx, must(db.Node(ctx, n.ID))(t)))(t)
			if got := h.EndsTheSame(); got != want {
				t.Errorf("%s: another turnover ends the same is %v, want %v", when, got, want)
			}
		}
		clock.Advance(time.Minute)
		certified(t, db, n, "c-1", "r-1", false)
		is("fell short", true)
		clock.Advance(time.Minute)
		ok(t, grade(db, s.ID, "purge"))
		is("another policy", false)
		clock.Advance(time.Minute)
		certified(t, db, n, "c-2", "r-2", true)
		is("met the policy", false)
	})
}

// Another default profile of a site is another policy.
func TestAnotherDefaultProfileJudgesAgain(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, _ *storetest.Clock, _ *purges) {
		s := newSite(t, db, "dc1")
		strict := broker.NewProfile("p-strict", s.ID, "strict")
		strict.Policy.DiskGrade = "purge"
		must(db.CreateProfile(ctx, admin, strict))(t)
		n := memberAt(t, db, "gpu-1", "dc1")
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
		certified(t, db, n, "c-1", "r-1", true)
		swept(t, db)
		hints := db.Hints(t.Context())
		must(db.UpdateSite(ctx, admin, "dc1", "audit", func(s *broker.Site) error { s.DefaultProfileID = strict.ID; return nil }))(t)
		select {
		case h := <-hints:
			if h.Kind != store.HintNode || h.ID != "" {
				t.Errorf("the hint is %+v", h)
			}
		default:
			t.Error("no hint was sent")
		}
		if codes := reasons(t, db, n); !slices.Equal(codes, []string{"certificate_below_policy"}) {
			t.Errorf("%q", codes)
		}
	})
}

// A request that has found its nodes is let through before the policy becomes stricter; a later one sees it.
func TestAStricterPolicyWaitsForAPlacementThatHasJudged(t *testing.T) {
	url, j := storetest.URL(t, "postgres"), &purges{}
	db := judging(t, url, nil, j.lacks)
	s := newSite(t, db, "dc1")
	offered(t, db, "h100")
	for _, n := range stock(t, db, "h100", "dc1", 2) {
		certified(t, db, n, "c-"+n.ID, "r-"+n.ID, true)
	}
	raw := storetest.Raw(t, url)
	blocker := must(raw.BeginTx(ctx, nil))(t)
	must(blocker.Exec(`LOCK TABLE tenant_allocations IN EXCLUSIVE MODE`))(t) // the first write after the judgement
	placed, changed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := asks(db, "a-1", "h100", 1)
		placed <- err
	}()
	waitFor(t, raw, "the request to stand before its insert", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND locktype = 'relation' AND NOT granted)`)
	go func() { changed <- grade(db, s.ID, "purge") }()
	waitFor(t, raw, "the policy to stand before the request", `SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)`)
	ok(t, blocker.Rollback())
	ok(t, <-placed)
	ok(t, <-changed)
	_, err := asks(db, "a-2", "h100", 1)
	refused(t, err, "sku_unavailable")
}

// An override accepts what the policy asked for at that time. A policy that asks for more afterwards holds the
// node again, also if the certificate lacked something before.
func TestAnOverrideAcceptsThePolicyOfItsTime(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, clock *storetest.Clock, _ *purges) {
		s := newSite(t, db, "dc1")
		offered(t, db, "h100")
		n := stock(t, db, "h100", "dc1", 1)[0]
		certified(t, db, n, "c-1", "r-1", true)
		is := func(when, want string) {
			t.Helper()
			ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
			swept(t, db)
			if got := word(t, db, n.ID); got != want {
				t.Errorf("%s: the node is %q, want %q", when, got, want)
			}
		}
		clock.Advance(time.Minute)
		ok(t, grade(db, s.ID, "purge"))
		is("stricter", "held certificate_below_policy")
		clock.Advance(time.Minute)
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOverride, Reason: "a test machine"}))(t)
		is("overridden", "available")
		clock.Advance(time.Minute)
		_, err := db.UpdateProfile(ctx, admin, s.ID, "", "audit", func(p *broker.Profile) error {
			p.Policy.TurnoverEnvironment = "fresh_os"
			return nil
		})
		ok(t, err)
		is("stricter again", "held certificate_below_policy")
	})
}
