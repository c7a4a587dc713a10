package records

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
)

// Each second turnover of a node is a reimage where the site's policy asks for it, and the run says so.
func TestTheNumberOfATurnoverMakesItAReimage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(p *broker.Policy) { p.AcceptSystemDisk, p.ReimageEvery, p.AutomaticTurnoversAtOnce = true, 2, 4 })
		f.join("n-2", "gpu-2", "4y3h72")
		first, second := f.lets("n-2"), f.lets(f.node)
		f.certify(f.node, 1000) // a soft reset of before, which has run out by now
		f.ends("n-2", first)
		f.ends(f.node, second)
		for _, r := range f.want("both tenants left", "gpu-1", "gpu-2") {
			var s turnover.Turnover
			f.ok(json.Unmarshal(r.State, &s))
			want, because := turnover.SoftReset, ""
			if r.Subject == "gpu-1" {
				want, because = turnover.Reimage, "it is turnover 2 since the last reimage (reimage_every 2)"
			}
			if s.Mode != want || s.ModeBecause != because || !strings.Contains(s.Reason, because) {
				t.Errorf("%s: %s because %q; %s", r.Subject, s.Mode, s.ModeBecause, s.Reason)
			}
		}
	})
}

// A rule about an organisation is one about all its projects. What no policy leaves out is asked
// for in any case: root, what may still run, and what was passed over.
func TestThePastOfANodeIsReadAsFarAsThePolicyAsks(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		f := newFollows(t, db, clock, func(*broker.Policy) {})
		_, err := db.CreateOrganisation(f.ctx, broker.System, broker.Organisation{ID: "org-1", Name: "acme"})
		f.ok(err)
		_, err = db.CreateProject(f.ctx, broker.System, broker.Project{ID: "p-1", OrganisationID: "org-1", Name: "lab"})
		f.ok(err)
		f.certify(f.node, 1000)
		n, err := db.Node(f.ctx, f.node)
		f.ok(err)
		tenants := []broker.Occupant{{ID: "a-1", Tenant: "p-1"}, {ID: "a-2", Tenant: "by-hand"}, {ID: "a-3"}}
		for name, c := range map[string]struct {
			policy broker.ModePolicy
			orgs   string
			resets int
			asks   int64
		}{
			"no rule":     {broker.ModePolicy{ReimageSKUs: []string{"h100"}}, "", 0, 3},
			"a tenant":    {broker.ModePolicy{ReimageTenants: []string{"org-1"}}, "org-1", 0, 4},
			"each second": {broker.ModePolicy{ReimageEvery: 2}, "", 1, 4},
		} {
			before := db.Statements()
			past, err := f.automatic.Starts.Past(f.ctx, n, c.policy, tenants)
			f.ok(err)
			if got := strings.Join(past.Organisations, " "); got != c.orgs || past.Resets != c.resets || db.Statements()-before != c.asks {
				t.Errorf("%s: %+v after %d statements", name, past, db.Statements()-before)
			}
		}
	})
}
