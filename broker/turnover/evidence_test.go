package turnover_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// until runs a soft reset until a stage has begun.
func (w *world) until(stage string) (id string) {
	w.t.Helper()
	r, err := w.start(reset)
	if err != nil {
		w.t.Fatal(err)
	}
	for range 1000 {
		if r = w.run(r.ID); r.Stage == stage {
			return r.ID
		}
		if worked, err := w.engine.Step(ctx); err != nil {
			w.t.Fatal(err)
		} else if !worked {
			w.clock.Advance(time.Second)
		}
	}
	w.t.Fatalf("it is %s at %s, and never at %s", r.Status, r.Stage, stage)
	return ""
}

// stopped checks the failure of a stopped run.
func (w *world) stopped(r chain.Record, stage, code string) {
	w.t.Helper()
	if !r.Status.Stopped() || r.Stage != stage || r.Failure == nil || r.Failure.Code != code {
		w.t.Errorf("run %s: %s at %s: %+v; want %s at %s", r.ID, r.Status, r.Stage, r.Failure, code, stage)
	}
}

func (w *world) conflict() {
	w.clock.Advance(time.Second)
	w.book.Change(node, func(m *turnovertest.Machine) { m.ConflictAt = w.clock.Now() })
}

// Once the node has its new key, two holders of the key stop the run: their signatures make no
// certificate, and no certificate hands the node out. A retry changes nothing; another key
// resolves the conflict.
func TestTwoHoldersOfTheNewKeyStopASoftReset(t *testing.T) {
	for _, stage := range []string{"cleanup_storage", "scrub_gpu", "validate_clean_node", "issue_clean_certificate", "enable_node"} {
		t.Run(stage, func(t *testing.T) {
			w := newWorld(t)
			id := w.until(stage)
			w.conflict()
			r := w.settle(id)
			w.failed(r, stage, broker.StateAmbiguity, "identity_conflict")
			r = w.act(id, chain.RetryStage)
			w.failed(r, stage, broker.StateAmbiguity, "identity_conflict")
			if made := w.book.Certificates(); stage != "enable_node" && len(made) > 0 {
				t.Errorf("certificates %v", made)
			}
			if m := w.book.Machine(node); m.Status == broker.Active || !m.TurnoverOwed {
				t.Fatalf("the node is %s, owed %v", m.Status, m.TurnoverOwed)
			}
			before := w.book.Machine(node).IdentitySince
			if r = w.act(id, chain.Rerun); r.Status != chain.Completed || !w.book.Machine(node).IdentitySince.After(before) {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			w.stands(broker.Active, false)
		})
	}
}

// An operator accepts the conflicts seen so far, and no later ones.
func TestAnAdoptedConflictIsThatOneAlone(t *testing.T) {
	w := newWorld(t)
	id := w.until("scrub_gpu")
	w.conflict()
	w.failed(w.settle(id), "scrub_gpu", broker.StateAmbiguity, "identity_conflict")
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"node.validate_clean": "handler_failed"}
	})
	if r := w.act(id, chain.Adopt); r.Stage != "validate_clean_node" {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.conflict()
	w.book.Change(node, func(m *turnovertest.Machine) { m.Fails = nil })
	w.failed(w.act(id, chain.RetryStage), "validate_clean_node", broker.StateAmbiguity, "identity_conflict")
	if r := w.act(id, chain.Adopt); r.Status != chain.Reconciled {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
}

// A fresh system may also have lost its key by the time of the inspection.
func TestTwoHoldersOfTheNewKeyStopAReimage(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	state, locks, err := turnover.New(s.book.Machine(s.id).Node, s.place, turnover.Request{Mode: turnover.Reimage, Erase: "secure", Reason: "patches"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.engine.Start(ctx, chain.Start{ID: "r-9", Kind: turnover.Reimage.Kind(), Site: "dc1", Subject: "c01", State: state, Locks: locks, RequestedBy: "ada"}); err != nil {
		t.Fatal(err)
	}
	seen := false
	r := s.settle("r-9", func(m maassim.Machine) {
		s.book.Boot(m.UserData)
		if now := s.book.Machine(s.id); !seen && now.Epoch > state.Machine.Epoch {
			s.clock.Advance(time.Second)
			s.book.Change(s.id, func(m *turnovertest.Machine) { m.ConflictAt = s.clock.Now() })
			seen = true
		}
	})
	s.failed(r, "scrub_gpu", "state_ambiguity", "identity_conflict")
	if !strings.Contains(r.NextAction, "restart-clean") {
		t.Errorf("next action %q", r.NextAction)
	}
	if r = s.order("r-9", chain.RestartClean); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	s.is(broker.Active, false)
}

// The rotation resolves conflicts from before the new key.
func TestAConflictFromBeforeTheRotationIsSettledByIt(t *testing.T) {
	w := newWorld(t)
	id := w.until("drain_node")
	w.conflict()
	if r := w.settle(id); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
}

// An operator's acceptance of one obstacle does not lift another.
func TestAnAdoptionLiftsNoQuarantineThatItWasNotGivenFor(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"node.validate_clean": "handler_failed"}
	})
	r := w.begin(reset)
	if r.Stage != "validate_clean_node" {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	w.book.Change(node, func(m *turnovertest.Machine) { m.Fails, m.Status, m.ByPerson = nil, broker.Quarantined, true })
	for _, a := range []chain.Action{chain.Adopt, chain.RetryStage, chain.Resume} {
		w.stopped(w.act(r.ID, a), "enable_node", "kept_out_by_person")
		w.stands(broker.Quarantined, true)
	}
	if r = w.act(r.ID, chain.Adopt); r.Status != chain.Reconciled {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
}

// A node whose inspection is older than a certificate's validity gets no certificate: its state
// since then is unknown.
func TestAnOldValidationMakesNoCertificate(t *testing.T) {
	for name, age := range map[string]time.Duration{"a day": 24 * time.Hour, "eight days": 8 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.book.Broken = func(method string) error {
				if method == "Certify" {
					return broker.Errorf(broker.Refused, "no_key", "no")
				}
				return nil
			}
			r := w.begin(reset)
			if r.Stage != "issue_clean_certificate" {
				t.Fatalf("%s at %s", r.Status, r.Stage)
			}
			w.book.Broken = nil
			w.clock.Advance(age)
			stale := age > time.Duration(w.policy.CertificateValidSeconds)*time.Second
			if r = w.act(r.ID, chain.RetryStage); stale {
				w.failed(r, "issue_clean_certificate", broker.EvidenceUntrusted, "evidence_stale")
				r = w.act(r.ID, chain.Rerun)
			}
			if r.Status != chain.Completed {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			looked := 1
			if stale {
				looked = 2
			}
			if got := len(w.book.Tasks(node, "node.validate_clean")); got != looked {
				t.Errorf("it was looked at %d times, want %d", got, looked)
			}
		})
	}
}

// A removal ends no allocation without an explicit request.
func TestAFullDecommissionForcesNobodyUnasked(t *testing.T) {
	w := newWorld(t)
	w.book.LetIn(node, "a-1", "acme", false)
	r := w.begin(turnover.Request{Mode: turnover.FullDecommission})
	w.stopped(r, "disable_node", "allocation_live")
	w.stands(broker.Active, false)
	if len(w.book.Forced) > 0 {
		t.Errorf("forced %v", w.book.Forced)
	}
}

// A run for a node in one status leaves the node alone in another status.
func TestARunThatWasJudgedByAStatusTakesTheNodeFromThereAlone(t *testing.T) {
	w := newWorld(t)
	r := w.begin(turnover.Request{Mode: turnover.FullDecommission, From: broker.Retired})
	w.stopped(r, "disable_node", "node_moved")
	w.stands(broker.Active, false)
	if r = w.act(r.ID, chain.Cancel); r.Status != chain.Cancelled {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	w.stands(broker.Active, false)
}

// A change of the machine's MAAS token is stated only if both tokens were seen. Here MAAS had the
// machine back before the run, and its earlier token is unknown.
func TestACertificateSaysWhereNobodySawAnotherToken(t *testing.T) {
	s := newSite(t)
	s.place.Policy.AcceptMAASErase = true
	state, locks, err := turnover.New(s.book.Machine(s.id).Node, s.place, turnover.Request{Mode: turnover.Reimage, Erase: "secure", Reason: "patches"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.engine.Start(ctx, chain.Start{ID: "r-9", Kind: turnover.Reimage.Kind(), Site: "dc1", Subject: "c01", State: state, Locks: locks, RequestedBy: "ada"}); err != nil {
		t.Fatal(err)
	}
	for s.run("r-9").Stage != "configure_storage" {
		if worked, err := s.engine.Step(ctx); err != nil {
			t.Fatal(err)
		} else if !worked {
			s.clock.Advance(time.Second)
		}
	}
	if r := s.order("r-9", chain.Cancel); r.Status != chain.Cancelled {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	for _, want := range []bool{true, false} {
		r := s.turnOver(reimage)
		report, err := s.book.Verify(s.state(r.ID).Issued)
		if err != nil {
			t.Fatalf("%v; %s at %s: %+v", err, r.Status, r.Stage, r.Failure)
		}
		has := slices.ContainsFunc(report.Clean.Exposures, func(e certificate.Exposure) bool { return e.Code == certificate.ExposureMAASToken })
		if report.Clean.Environment != certificate.FreshOS || has != want {
			t.Errorf("run %s: environment %s, exposures %+v", r.ID, report.Clean.Environment, report.Clean.Exposures)
		}
		if !r.Status.Ended() {
			s.order(r.ID, chain.Cancel)
		}
	}
}
