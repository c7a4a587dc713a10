package records

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// eachOne runs f on both stores, with a fleet of a single node.
func eachOne(t *testing.T, f func(f *fleet, s *simulated)) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		fleet := newFleet(t, db, clock, 1)
		fleet.heardNow()
		f(fleet, fleet.all[0])
	})
}

func (f *fleet) heardNow() {
	f.Helper()
	f.ok(f.db.TouchNodes(f.Context(), map[string]time.Time{f.all[0].NodeID: f.db.Now()}))
}

// step has the engine do all due steps.
func (f *fleet) step() {
	f.Helper()
	for {
		worked, err := f.engine.Step(f.Context())
		f.ok(err)
		if !worked {
			return
		}
	}
}

// update begins a run that updates the node, until its agent has the task.
func (f *fleet) update(s *simulated) (chain.Record, wire.Delivery) {
	f.Helper()
	node, err := f.db.Node(f.Context(), s.NodeID)
	f.ok(err)
	start, err := f.nodes.Start(f.Context(), node, agentrecords.Order{Request: agentlifecycle.Request{
		Mode: broker.ByRebootstrap, Scenario: broker.InPlaceUpgrade, Safety: broker.OnlyIdle, RequestedBy: "ada",
	}, Target: after})
	f.ok(err)
	r, err := f.engine.Start(f.Context(), start)
	f.ok(err)
	f.step()
	return r, f.fetch(s)
}

func (f *fleet) fetch(s *simulated) wire.Delivery {
	f.Helper()
	reply, err := f.nodes.Queue.Wait(f.Context(), s.Peer, []taskcatalog.Lane{taskcatalog.LaneExclusive, taskcatalog.LaneConcurrent}, 0)
	f.ok(err)
	if len(reply.Tasks) != 1 {
		f.Fatalf("the node is given %d tasks", len(reply.Tasks))
	}
	return reply.Tasks[0]
}

// silence is the time after which the broker gives a task up.
func (f *fleet) silence() {
	f.Helper()
	f.clock.Advance(5 * time.Hour)
	_, err := f.nodes.Queue.Sweep(f.Context())
	f.ok(err)
	f.clock.Advance(time.Minute)
	f.step()
}

// says has the node report, with its last update.
func (f *fleet) says(s *simulated, d taskcatalog.AgentDelivery) {
	f.Helper()
	s.renewals++
	r := s.report()
	r.Agent.Delivery = &d
	storetest.Report(f, f.db, s.NodeID, r)
}

// told are the events about a node's agent, of the node and of runs.
func (f *fleet) told() (of []string) {
	f.Helper()
	_, err := f.db.PlaceEvents(f.Context(), 1000)
	f.ok(err)
	all, _, err := f.db.Outbox(f.Context(), store.OutboxFilter{Limit: 1000})
	f.ok(err)
	for _, e := range all {
		if strings.HasPrefix(e.Type, "agent.") && strings.HasPrefix(e.Subject, "node/") {
			of = append(of, e.Type)
		}
	}
	return of
}

func (f *fleet) run(id string) chain.Record {
	f.Helper()
	r, err := f.db.Run(f.Context(), id)
	f.ok(err)
	return r
}

// begun is when the last delivery to a node began.
func (f *fleet) begun(s *simulated) time.Time {
	f.Helper()
	a, err := f.db.Agent(f.Context(), s.NodeID)
	f.ok(err)
	return a.AttemptAt
}

func (f *fleet) wants(s *simulated, result, reason, correlation string) {
	f.Helper()
	a, err := f.db.Agent(f.Context(), s.NodeID)
	f.ok(err)
	if a.Result != result || a.Reason != reason || a.CorrelationID != correlation {
		f.Errorf("the last delivery is %s %q of %s, and not %s %q of %s", a.Result, a.Reason, a.CorrelationID, result, reason, correlation)
	}
}

func TestWhatBecameOfAnUpdateThatWasGivenUpIsTold(t *testing.T) {
	for outcome, events := range map[taskcatalog.UpdateOutcome][]string{
		taskcatalog.UpdateConfirmed:  {broker.AgentUpdatedEvent},
		taskcatalog.UpdateRolledBack: {broker.AgentUpdateFailedEvent, broker.AgentRolledBackEvent},
	} {
		for _, cancelled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cancelled %v", outcome, cancelled), func(t *testing.T) {
				eachOne(t, func(f *fleet, s *simulated) {
					r, d := f.update(s)
					if cancelled {
						_, err := f.engine.Act(f.Context(), chain.Order{ID: r.ID, Actor: chain.Actor{Name: "ada"}, Action: chain.Cancel, Reason: "no"})
						f.ok(err)
						f.step()
						if got := f.run(r.ID); got.Status != chain.Compensating {
							f.Fatalf("while the node has it the run is %s", got.Status)
						}
						if by, _, err := f.db.RunOfNode(f.Context(), s.NodeID); err != nil || by != r.ID {
							f.Fatalf("the node may be worked on by another meanwhile (%v)", err)
						}
					}
					f.silence()
					ends, reason := chain.FailedManual, "running"
					if cancelled {
						ends, reason = chain.Cancelled, "failed"
					}
					if got := f.run(r.ID); got.Status != ends {
						f.Fatalf("after the silence the run is %s", got.Status)
					}
					if a, err := f.db.Agent(f.Context(), s.NodeID); err != nil || a.Result != reason {
						f.Errorf("after the silence the delivery is %s (%v)", a.Result, err)
					}
					word := taskcatalog.AgentDelivery{ID: d.TaskID, From: before, To: after, Outcome: outcome, Reason: "no_contact", At: f.db.Now().Add(-5 * time.Hour), SwitchSeconds: 4}
					for range 3 {
						f.says(s, word)
					}
					f.wants(s, string(outcome), "no_contact", r.ID)
					if got := f.told(); !slices.Equal(got, events) {
						f.Errorf("told %v", got)
					}
					history, err := f.db.Events(f.Context(), r.ID)
					f.ok(err)
					n := 0
					for _, e := range history {
						if strings.Contains(e.Message, "given up") && strings.Contains(e.Message, string(outcome)) {
							n++
						}
					}
					if n != 1 {
						f.Errorf("the run's history says it %d times", n)
					}
				})
			})
		}
	}
}

// A confirmed version may be put back while its run still looks at the node, and only the node
// knows. The rollback is announced once, and does not obstruct the next delivery.
func TestAVersionThatIsPutBackWhileItsRunLooksIsToldOnce(t *testing.T) {
	eachOne(t, func(f *fleet, s *simulated) {
		r, d := f.update(s)
		f.answer(s, d, taskcatalog.OutcomeSucceeded, taskcatalog.SelfUpdateResult{Outcome: taskcatalog.UpdateConfirmed, Slots: []taskcatalog.UpdateSlot{}})
		f.clock.Advance(time.Minute)
		f.step()
		f.wants(s, "confirmed", "", r.ID)
		if seen, err := f.nodes.Look(f.Context(), []string{s.NodeID}); err != nil || seen[s.NodeID].PutBack != "" {
			f.Errorf("a rollout sees %+v, %v", seen, err)
		}
		if got := f.run(r.ID); !got.Status.Moving() {
			f.Fatalf("the run is %s", got.Status)
		}
		before := len(f.told())
		for range 3 {
			f.clock.Advance(time.Minute)
			f.says(s, taskcatalog.AgentDelivery{ID: d.TaskID, From: "1.0.0", To: after, Outcome: taskcatalog.UpdateRolledBack, Reason: "crash_loop", At: f.db.Now()})
		}
		f.wants(s, "rolled_back", "crash_loop", r.ID)
		if seen, err := f.nodes.Look(f.Context(), []string{s.NodeID}); err != nil || seen[s.NodeID].PutBack != "crash_loop" || seen[s.NodeID].Delivered != r.ID {
			f.Errorf("a rollout sees %+v, %v", seen, err)
		}
		if got := f.told()[before:]; !slices.Equal(got, []string{broker.AgentUpdateFailedEvent, broker.AgentRolledBackEvent}) {
			f.Errorf("told %v", got)
		}
		f.ok(f.db.Deliver(f.Context(), store.Delivery{NodeID: s.NodeID, CorrelationID: r.ID, At: f.begun(s), Result: "confirmed"}))
		f.wants(s, "confirmed", "", r.ID)
	})
}

// A node reports deliveries of updates, and of no other task.
func TestADeliveryOfAnotherTaskIsNone(t *testing.T) {
	eachOne(t, func(f *fleet, s *simulated) {
		k, _, err := f.nodes.Queue.Enqueue(f.Context(), ada, taskqueue.Request{NodeID: s.NodeID, Type: "node.drain"})
		f.ok(err)
		f.fetch(s)
		f.silence()
		f.says(s, taskcatalog.AgentDelivery{ID: k.ID, From: before, To: after, Outcome: taskcatalog.UpdateRolledBack, At: f.db.Now()})
		if got := f.told(); len(got) != 0 {
			f.Errorf("told %v", got)
		}
		f.wants(s, "", "", "")
	})
}

// The node's report may have come before its task was given up: the task's late result then makes
// the broker ask for another report.
func TestALateWordOfAnUpdateHasTheNodeReport(t *testing.T) {
	eachOne(t, func(f *fleet, s *simulated) {
		_, d := f.update(s)
		f.says(s, taskcatalog.AgentDelivery{ID: d.TaskID, From: before, To: after, Outcome: taskcatalog.UpdateConfirmed, At: f.db.Now()})
		f.silence()
		if got := f.told(); len(got) != 0 {
			f.Fatalf("told %v while the task had no end", got)
		}
		f.answer(s, d, taskcatalog.OutcomeSucceeded, taskcatalog.SelfUpdateResult{Outcome: taskcatalog.UpdateConfirmed, Slots: []taskcatalog.UpdateSlot{}})
		n, err := f.db.Node(f.Context(), s.NodeID)
		f.ok(err)
		if n.ReportDigest != "" {
			f.Error("the node is not asked what it is")
		}
	})
}

func TestADeliveryThatNoRunTellsOfIsToldOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		phase   string // of the node's own task; empty: a person's work on the node
		outcome taskcatalog.UpdateOutcome
		events  []string
	}{
		{"a task of its own", taskcatalog.PhaseUpdate, taskcatalog.UpdateConfirmed, []string{broker.AgentUpdatedEvent}},
		{"a task of its own that was put back", taskcatalog.PhaseUpdate, taskcatalog.UpdateRolledBack, []string{broker.AgentUpdateFailedEvent, broker.AgentRolledBackEvent}},
		{"a rollback by a task", taskcatalog.PhaseRollback, taskcatalog.UpdateConfirmed, []string{broker.AgentRolledBackEvent}},
		{"a revert by hand", "", taskcatalog.UpdateConfirmed, []string{broker.AgentRolledBackEvent}},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachOne(t, func(f *fleet, s *simulated) {
				id := taskcatalog.ByHand + "20260101T000000Z"
				if test.phase != "" {
					params, err := taskcatalog.Encode(taskcatalog.SelfUpdateParams{Phase: test.phase, Version: after})
					f.ok(err)
					k, _, err := f.nodes.Queue.Enqueue(f.Context(), ada, taskqueue.Request{NodeID: s.NodeID, Type: "node.self_update", Params: params})
					f.ok(err)
					id = k.ID
				}
				for range 3 {
					f.clock.Advance(time.Minute)
					f.says(s, taskcatalog.AgentDelivery{ID: id, From: before, To: after, Outcome: test.outcome, At: f.db.Now()})
				}
				if got := f.told(); !slices.Equal(got, test.events) {
					f.Errorf("told %v", got)
				}
				f.wants(s, string(test.outcome), "", id)
			})
		})
	}
}

// A run announces its own delivery: the node's report on the same delivery is not announced
// again.
func TestADeliveryOfARunIsToldByItAlone(t *testing.T) {
	eachOne(t, func(f *fleet, s *simulated) {
		r, d := f.update(s)
		word := taskcatalog.AgentDelivery{ID: d.TaskID, From: before, To: after, Outcome: taskcatalog.UpdateRolledBack, Reason: "no_contact", At: f.db.Now()}
		f.says(s, word)
		f.answer(s, d, taskcatalog.OutcomeFailed, taskcatalog.SelfUpdateResult{FromVersion: before, ToVersion: after, Outcome: taskcatalog.UpdateRolledBack, Reason: "no_contact", Slots: []taskcatalog.UpdateSlot{}})
		f.clock.Advance(time.Minute)
		f.step()
		f.says(s, word)
		if got := f.told(); !slices.Equal(got, []string{broker.AgentRolledBackEvent}) {
			f.Errorf("told %v", got)
		}
		f.wants(s, "rolled_back", "no_contact", r.ID)
	})
}

// A delivery from before the enrolment is no event of today.
func TestWhatWasDeliveredBeforeTheNodeEnrolledIsNotTold(t *testing.T) {
	eachOne(t, func(f *fleet, s *simulated) {
		_, err := f.db.CreateNode(f.Context(), ada, store.NewNode{ID: "n-2", Hostname: "g2", Bootstrap: "command", TokenHash: "h", TokenExpires: f.db.Now().Add(time.Hour)})
		f.ok(err)
		r := s.report()
		r.Agent.Delivery = &taskcatalog.AgentDelivery{ID: "t-of-another-broker", From: before, To: after, Outcome: taskcatalog.UpdateRolledBack}
		_, err = f.db.Enroll(f.Context(), store.EnrollInput{
			TokenHash: "h", PublicKeyDigest: "k", TrustVersion: 1, Report: r,
			Issue: func(broker.Node, int64) (store.IssuedCert, error) {
				return store.IssuedCert{Serial: "s-2", PEM: "p", PublicKey: []byte("k"), NotBefore: f.db.Now(), NotAfter: f.db.Now().Add(24 * time.Hour)}, nil
			},
		})
		f.ok(err)
		r.Digest = "another"
		storetest.Report(f, f.db, "n-2", r)
		if got := f.told(); len(got) != 0 {
			f.Errorf("told %v", got)
		}
		if a, err := f.db.Agent(f.Context(), "n-2"); err != nil || a.Result != "rolled_back" {
			f.Errorf("the last delivery is %q (%v)", a.Result, err)
		}
	})
}

// A node's report between the unheard end of its task and the run's next step is not lost: the
// run's missing knowledge does not undo the report.
func TestAWordThatComesBeforeTheRunsNextStepIsKept(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		eachOne(t, func(f *fleet, s *simulated) {
			r, d := f.update(s)
			if cancelled {
				_, err := f.engine.Act(f.Context(), chain.Order{ID: r.ID, Actor: chain.Actor{Name: "ada"}, Action: chain.Cancel, Reason: "no"})
				f.ok(err)
				f.step()
			}
			f.clock.Advance(5 * time.Hour)
			_, err := f.nodes.Queue.Sweep(f.Context())
			f.ok(err)
			word := taskcatalog.AgentDelivery{ID: d.TaskID, From: before, To: after, Outcome: taskcatalog.UpdateRolledBack, Reason: "no_contact", At: f.db.Now(), SwitchSeconds: 4}
			f.says(s, word)
			if got := f.run(r.ID); !got.Status.Moving() {
				f.Fatalf("the run is %s already", got.Status)
			}
			f.clock.Advance(time.Minute)
			f.step()
			if got := f.run(r.ID); got.Status.Moving() {
				f.Fatalf("the run is %s", got.Status)
			}
			f.says(s, word)
			f.wants(s, "rolled_back", "no_contact", r.ID)
			if got := f.told(); !slices.Equal(got, []string{broker.AgentUpdateFailedEvent, broker.AgentRolledBackEvent}) {
				f.Errorf("cancelled %v: told %v", cancelled, got)
			}
		})
	}
}

// A report on a task that the run has since replaced is announced, but does not end the delivery,
// which is under way.
func TestAWordOnATaskThatTheRunHasReplacedEndsNothing(t *testing.T) {
	eachOne(t, func(f *fleet, s *simulated) {
		r, d := f.update(s)
		f.silence()
		_, err := f.engine.Act(f.Context(), chain.Order{ID: r.ID, Actor: chain.Actor{Name: "ada"}, Action: chain.Resume, Reason: "again"})
		f.ok(err)
		f.heardNow()
		f.step()
		if next := f.fetch(s); next.TaskID == d.TaskID {
			f.Fatal("it is the same task")
		}
		f.says(s, taskcatalog.AgentDelivery{ID: d.TaskID, From: before, To: after, Outcome: taskcatalog.UpdateRolledBack, Reason: "no_contact", At: f.db.Now()})
		f.wants(s, "running", "", r.ID)
		if got := f.told(); !slices.Equal(got, []string{broker.AgentUpdateFailedEvent, broker.AgentRolledBackEvent}) {
			f.Errorf("told %v", got)
		}
	})
}
