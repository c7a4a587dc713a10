package nodeapi

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// The system that was on a machine before the machine was given back gets nothing, and each sign of
// life is recorded. However often it asks, the node itself is heard.
func TestThePreviousSystemIsRefusedAndToldOf(t *testing.T) {
	b := newBroker(t)
	old := b.member()
	old.post(old.path("/tasks/t-1/progress"), wire.ProgressRequest{}) // the node is heard
	must(b.db.Transition(t.Context(), admin, old.id, store.Change{To: broker.Active, By: broker.OwnerOnboarding}))(t)
	u := store.Turnover{NodeID: old.id, RunID: "r-1", Reason: "patches"}
	must(b.db.BeginTurnover(t.Context(), admin, u, "a-1"))(t)
	must0(t, b.db.CutOff(t.Context(), admin, u))
	eventually(t, "the deny list knows", func() bool { return b.deny.denied(pki.Serial(old.cert.Leaf)) })
	old.post(old.path("/renew"), old.renewRequest()).refused(b, 403, "certificate_denied")
	if s, _, _ := b.db.MAASState(t.Context(), old.id); s.Drift {
		t.Error("a system that is being released counts as one of before")
	}
	must0(t, b.db.Wiped(t.Context(), admin, u))
	b.advance(2 * time.Minute)
	fresh := b.machine()
	fresh.id = old.id
	fresh.enroll(b.tokenFor(old.id))
	for range 200 {
		old.get(old.path("/tasks/wait?lanes=nothing")).refused(b, 403, "certificate_denied")
	}
	if s, _, _ := b.db.MAASState(t.Context(), old.id); !s.Drift || s.Rule != store.RulePreviousSystem {
		t.Errorf("%+v", s)
	}
	fresh.post(fresh.path("/tasks/t-1/progress"), wire.ProgressRequest{}).refused(b, 422, "bad_progress") // and not too_many_requests

	// A person has found that the old system is a copy: it is still refused, but no longer
	// reported.
	must(b.db.ResolveDrift(t.Context(), admin, old.id, "a copy"))(t)
	eventually(t, "the deny list knows", func() bool {
		reason, _ := b.deny.reason(pki.Serial(old.cert.Leaf))
		return reason == store.DenyKnown
	})
	b.advance(2 * time.Minute)
	old.get(old.path("/tasks/wait?lanes=nothing")).refused(b, 403, "certificate_denied")
	old.post(old.path("/renew"), old.renewRequest()).refused(b, 403, "certificate_denied")
	if s, _, _ := b.db.MAASState(t.Context(), old.id); s.Drift {
		t.Errorf("a copy that is known of: %+v", s)
	}
}
