package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// The lists of nodes whose certificate ends or has ended, and the alert, take the end that the judge takes. The
// alert counts from the change of the policy, if the end by the new policy lies before it.
func TestAShorterValidityCountsInListsAndAlerts(t *testing.T) {
	eachJudging(t, func(t *testing.T, db *store.DB, clock *storetest.Clock, _ *purges) {
		s := newSite(t, db, "dc1")
		n := memberAt(t, db, "gpu-1", "dc1")
		ok(t, db.SaveBaseline(ctx, admin, n.ID, "sha256:b", []byte("{}"), "test"))
		must(db.Transition(ctx, admin, n.ID, store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"}))(t)
		valid := func(seconds int) {
			t.Helper()
			must(db.UpdateProfile(ctx, admin, s.ID, "", "audit", func(p *broker.Profile) error { p.Policy.CertificateValidSeconds = seconds; return nil }))(t)
		}
		issued := clock.Now()
		is := func(when string, ending, expired []time.Duration, alone int, since time.Time) {
			t.Helper()
			ok(t, db.TouchNodes(ctx, map[string]time.Time{n.ID: clock.Now()}))
			swept(t, db)
			for list, of := range map[string]struct {
				got  []store.IdleNode
				want []time.Duration
			}{"ending": {must(db.EndingNodes(ctx, 30))(t), ending}, "expired": {must(db.ExpiredNodes(ctx))(t), expired}} {
				var got []time.Duration
				for _, l := range of.got {
					got = append(got, l.Since.Sub(issued))
				}
				if !slices.Equal(got, of.want) {
					t.Errorf("%s: %s are %v, want %v", when, list, got, of.want)
				}
			}
			got := must(db.LeftAlone(ctx, []string{"dc1"}))(t)
			if len(got) != alone || alone > 0 && !got[0].Since.Equal(since) {
				t.Errorf("%s: left alone are %+v, want %d since %v", when, got, alone, since)
			}
		}
		certified(t, db, n, "c-1", "r-1", true) // for an hour
		end := []time.Duration{10 * time.Minute}
		clock.Advance(8 * time.Minute)
		is("by its own end", nil, nil, 0, issued)
		valid(600)
		is("shorter", end, nil, 0, issued)
		clock.Advance(2 * time.Minute)
		is("ended", nil, end, 0, issued)
		clock.Advance(store.TurnoverWithin + time.Second)
		is("late", nil, end, 1, issued.Add(10*time.Minute))

		certified(t, db, n, "c-2", "r-2", true)
		issued = clock.Now()
		valid(3600)
		clock.Advance(50 * time.Minute)
		valid(600)
		changed := clock.Now()
		is("shorter than its age", nil, end, 0, issued)
		clock.Advance(10*time.Minute + store.TurnoverWithin - time.Second)
		is("its own end was not an hour ago", nil, end, 1, changed)
	})
}
