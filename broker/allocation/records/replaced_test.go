package records

import (
	"context"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

// A soft reset that its node's silence has stopped is replaced where the policy asks for it, until a person
// or the limit of such reimages says otherwise.
func TestASilentTurnoverIsReplaced(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		site := broker.NewSite("0000-dc1")
		site.Name, site.APIBaseURL, site.PXEIface, site.NodePXEIface, site.RegionCode = "dc1", "https://maas.example/MAAS", "ens19", "eno1", "eu-1"
		profile := broker.NewProfile("1111-default", site.ID, broker.DefaultProfile)
		profile.Policy.ReimageWhenSilent = true
		_, err := db.CreateSite(t.Context(), ada, site, profile)
		ok(err)
		sku := broker.NewSKU()
		sku.ID = "h100"
		_, err = db.CreateSKU(t.Context(), ada, sku)
		ok(err)
		_, err = db.CreateNode(t.Context(), ada, store.NewNode{
			ID: "n-abcdefghijklmnop", Hostname: "gpu-1", Site: "dc1", SKU: "h100", MAASSystemID: "abc123", Bootstrap: "command", TokenHash: "h",
			TokenExpires: db.Now().Add(time.Hour),
		})
		ok(err)
		_, err = db.Enroll(t.Context(), store.EnrollInput{TokenHash: "h", PublicKeyDigest: "k", MAASSystemID: "abc123", Issue: func(broker.Node, int64) (store.IssuedCert, error) {
			return store.IssuedCert{Serial: "01", PublicKey: []byte("k"), NotAfter: db.Now().Add(time.Hour)}, nil
		}})
		ok(err)
		n, err := db.Transition(t.Context(), ada, "n-abcdefghijklmnop", store.Change{To: broker.Active, By: broker.OwnerOnboarding, Reason: "test"})
		ok(err)
		engine, err := chain.New(db, classes(), chain.Options{}, chain.Chain[turnover.Turnover]{Kind: turnover.SoftReset.Kind(), Stages: []chain.Stage[turnover.Turnover]{{
			Name: "drain_node", Do: func(context.Context, *chain.Run[turnover.Turnover]) error {
				return chain.Fail(broker.AgentSilent, "no answer").With("agent_silent", nil)
			},
		}}})
		ok(err)
		r := &Records{DB: db, Starts: &turnoverrecords.Starts{DB: db, Runs: engine}}
		at, err := r.Starts.Place(t.Context(), n, "")
		ok(err)
		state, locks, err := turnover.New(n, at, turnover.Request{Mode: turnover.SoftReset, Reason: "released", RequestedBy: "system"})
		ok(err)
		run, err := engine.Start(t.Context(), turnoverrecords.NewStart(n, state, locks, turnoverrecords.Requester{Name: "system"}))
		ok(err)
		replaced := func(when, node string, want bool, runs ...string) {
			t.Helper()
			if got, err := r.Replaced(t.Context(), node, runs); err != nil || got != want {
				t.Errorf("%s: replaced %v, %v", when, got, err)
			}
		}
		replaced("it moves", n.ID, false, run.ID)
		for range 5 {
			_, err = engine.Step(t.Context())
			ok(err)
			clock.Advance(time.Hour)
		}
		replaced("it has stopped", n.ID, true, run.ID)
		replaced("it is another node's", "n-other", false, run.ID)
		replaced("it is not followed", n.ID, false)
		_, err = engine.Act(t.Context(), chain.Order{
			ID: run.ID, Actor: chain.Actor{Name: "system"}, Action: chain.MarkManual, Reason: "too many", OnlyStopped: true, Says: &chain.Says{Code: "too_many_silent"},
		})
		ok(err)
		replaced("too many would be reimaged", n.ID, false, run.ID)
	})
}
