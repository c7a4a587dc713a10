package agentlifecycle_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/agentlifecycle"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/taskcatalog"
)

const verified = " verify_health:succeeded verify_renewal:succeeded verify_schedulable:succeeded"

func TestAGoodUpdate(t *testing.T) {
	w := newWorld(t)
	if l := w.start(w.request(broker.InPlaceUpgrade)); l != agentlifecycle.Update {
		t.Fatalf("it is %s", l)
	}
	w.settle(time.Hour)
	if got := w.story(); got != "check_safety:succeeded update_trust:skipped update_agent:succeeded verify_version:succeeded"+verified || w.run().Status != chain.Completed {
		t.Fatalf("%s, and is %s", got, w.run().Status)
	}
	last := w.told[len(w.told)-1]
	if w.told[0].Result != agentlifecycle.Running || last.Result != "confirmed" || last.Seconds != 42 || last.RunID != "r" {
		t.Errorf("told %+v", w.told)
	}
	if w.asked != 1 {
		t.Errorf("its renewal was asked for %d times", w.asked)
	}
}

// A release may be signed by a very new key: the node learns the key before it gets the release.
func TestANodeKnowsTheReleaseKeysBeforeItsUpdate(t *testing.T) {
	w := newWorld(t)
	w.node.TrustVersion = 2
	w.start(w.request(broker.InPlaceUpgrade))
	w.settle(time.Hour)
	if got := w.story(); got != "check_safety:succeeded update_trust:succeeded update_agent:succeeded verify_version:succeeded"+verified || w.run().Status != chain.Completed {
		t.Errorf("%s, and is %s", got, w.run().Status)
	}
}

func TestAnUpdateThatWasPutBackIsToldOfAsSuch(t *testing.T) {
	for outcome, code := range map[taskcatalog.UpdateOutcome]string{taskcatalog.UpdateRolledBack: "rolled_back", taskcatalog.UpdateRefused: "update_refused"} {
		for _, status := range []broker.TaskStatus{broker.TaskSucceeded, broker.TaskFailed} {
			t.Run(string(outcome)+" by a task that "+string(status), func(t *testing.T) {
				w := newWorld(t)
				w.does = func(k *broker.Task, _ any) {
					w.ended(k, taskcatalog.SelfUpdateResult{FromVersion: "1.3.0", ToVersion: "1.4.0", Outcome: outcome, Reason: "no_contact", Seconds: 12})
					k.Status = status
				}
				w.start(w.request(broker.InPlaceUpgrade))
				w.settle(time.Hour)
				r, last := w.run(), w.told[len(w.told)-1]
				if r.Status != chain.FailedRetryable || r.Failure.Code != code || r.Stage != "update_agent" {
					t.Fatalf("%+v, %+v", r, r.Failure)
				}
				if last.Result != string(outcome) || last.Reason != "no_contact" || last.Seconds != 12 {
					t.Errorf("told %+v", last)
				}
				var told []string
				for _, m := range w.store.Outbox() {
					told = append(told, m.Type)
				}
				back := slices.Contains(told, broker.AgentRolledBackEvent)
				if back != (outcome == taskcatalog.UpdateRolledBack) || !slices.Contains(told, "agent.upgrade.failed") {
					t.Errorf("told of %v", told)
				}
			})
		}
	}
}

// A successful task is not enough for a node to count as done.
func TestADoneTaskIsNotADoneNode(t *testing.T) {
	for _, test := range []struct {
		name  string
		bad   func(w *world)
		stage string
		code  string
	}{
		{"another version is reported", func(w *world) { w.node.AgentVersion = "1.3.0" }, "verify_version", "timed_out"},
		{"another build of the version is reported", func(w *world) { w.agent.SHA256 = "12" }, "verify_version", "timed_out"},
		{"it does not answer", func(w *world) {
			w.does = func(k *broker.Task, _ any) { k.Status = broker.TaskExpired }
		}, "verify_health", "agent_silent"},
		{"another version answers", func(w *world) {
			w.does = func(k *broker.Task, _ any) { w.ended(k, taskcatalog.HeartbeatCheckResult{AgentVersion: "1.3.0"}) }
		}, "verify_health", "version_not_running"},
		{"a tenant could not be let in", func(w *world) { w.unfit = []broker.Reason{{Code: "node_status", Message: "it is quarantined"}} }, "verify_schedulable", "timed_out"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.does = func(k *broker.Task, params any) {
				w.well(k, params)
				if k.Type == "node.self_update" {
					w.does = w.well
					test.bad(w)
				}
			}
			w.start(w.request(broker.InPlaceUpgrade))
			w.settle(2 * time.Hour)
			if r := w.run(); !r.Status.Stopped() || r.Stage != test.stage || r.Failure.Code != test.code {
				t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
		})
	}
}

func TestANodeThatWasNotFitBeforeNeedNotBeAfter(t *testing.T) {
	w := newWorld(t)
	w.node.Status = broker.Quarantined
	w.unfit = []broker.Reason{{Code: "node_status"}}
	w.start(w.request(broker.RepairReinstall))
	w.settle(time.Hour)
	if r := w.run(); r.Status != chain.Completed {
		t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
}

func TestSafetyPolicies(t *testing.T) {
	on := []broker.Occupant{{ID: "a-42", Tenant: "acme", Username: "u"}}
	t.Run("idle refuses, by name", func(t *testing.T) {
		w := newWorld(t)
		w.live = on
		_, _, err := agentlifecycle.New(w.place(), w.request(broker.InPlaceUpgrade))
		if e := broker.AsError(err); e.Code != "allocation_live" || !strings.Contains(e.Message, "a-42") || !strings.Contains(e.Message, "acme") {
			t.Errorf("%v", err)
		}
	})
	t.Run("idle refuses who was let in since it was asked", func(t *testing.T) {
		w := newWorld(t)
		w.start(w.request(broker.InPlaceUpgrade))
		w.live = on
		w.settle(time.Hour)
		if r := w.run(); r.Status != chain.FailedRetryable || r.Failure.Code != "allocation_live" || !strings.Contains(r.Failure.Message, "acme") || len(w.tasks) > 0 {
			t.Errorf("%s at %s: %+v, and %d tasks", r.Status, r.Stage, r.Failure, len(w.tasks))
		}
	})
	t.Run("after_drain waits, and shows for whom", func(t *testing.T) {
		w := newWorld(t)
		w.live = on
		req := w.request(broker.InPlaceUpgrade)
		req.Safety = broker.AfterDrain
		w.start(req)
		w.settle(time.Hour)
		if r := w.run(); r.Stage != "check_safety" || !strings.Contains(r.Waiting, "a-42 of tenant acme") || len(w.tasks) > 0 {
			t.Fatalf("%s at %s, waits for %q, %d tasks", r.Status, r.Stage, r.Waiting, len(w.tasks))
		}
		w.live = nil
		w.settle(time.Hour)
		if r := w.run(); r.Status != chain.Completed {
			t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
	})
	t.Run("after_drain does not wait for ever", func(t *testing.T) {
		w := newWorld(t)
		w.live = on
		req := w.request(broker.InPlaceUpgrade)
		req.Safety = broker.AfterDrain
		w.start(req)
		w.settle(48 * time.Hour)
		if r := w.run(); !r.Status.Stopped() || r.Failure.Code != "not_drained" || !strings.Contains(r.NextAction, "--safety forced") {
			t.Errorf("%s at %s: %+v, next %s", r.Status, r.Stage, r.Failure, r.NextAction)
		}
	})
	t.Run("forced asks nobody, and needs a reason", func(t *testing.T) {
		w := newWorld(t)
		w.live = on
		req := w.request(broker.InPlaceUpgrade)
		req.Safety, req.Reason = broker.Forced, ""
		if _, _, err := agentlifecycle.New(w.place(), req); broker.AsError(err).Code != "reason_missing" {
			t.Errorf("without a reason: %v", err)
		}
		req.Reason = "a hole"
		w.start(req)
		w.settle(time.Hour)
		if r := w.run(); r.Status != chain.Completed {
			t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
	})
}

// Each scenario has the narrowest sufficient list.
func TestWhichListARunGoesThrough(t *testing.T) {
	stale := func(w *world) { w.node.TrustVersion = 2; w.becomes("1.4.0") }
	for _, test := range []struct {
		name     string
		mode     broker.DeliveryMode
		scenario broker.DeliveryScenario
		as       func(w *world)
		list     agentlifecycle.List
		target   bool
	}{
		{"an update", broker.ByRebootstrap, broker.InPlaceUpgrade, nil, agentlifecycle.Update, true},
		{"a repair of what is in sync", broker.ByRebootstrap, broker.RepairReinstall, func(w *world) { w.becomes("1.4.0") }, agentlifecycle.Update, true},
		{"a certificate", broker.ByRebootstrap, broker.CertificateRepair, nil, agentlifecycle.Certificate, false},
		{"a configuration", broker.ByRebootstrap, broker.ConfigRepair, nil, agentlifecycle.Config, false},
		{"drift of the version", broker.ByRebootstrap, broker.DriftReconcile, nil, agentlifecycle.Update, true},
		{"an unknown build", broker.ByRebootstrap, broker.DriftReconcile, func(w *world) { w.node.AgentVersion = "0.0.0-dev" }, agentlifecycle.Update, true},
		{"drift of the configuration", broker.ByRebootstrap, broker.DriftReconcile, stale, agentlifecycle.Config, false},
		{"drift of the certificate", broker.ByRebootstrap, broker.DriftReconcile, func(w *world) { w.node.CertNotAfter = w.clock.Now().Add(time.Hour) }, agentlifecycle.Certificate, false},
		{"a machine without an agent", broker.ByRebootstrap, broker.BootstrapInstall, nil, agentlifecycle.Install, false},
		{"an update of who does not answer", broker.ByRebootstrap, broker.InPlaceUpgrade, func(w *world) { w.node.LastAgentContactAt = w.clock.Now().Add(-time.Hour) }, agentlifecycle.Install, true},
		{"an update of who is from before it", broker.ByRebootstrap, broker.InPlaceUpgrade, func(w *world) { w.node.TaskTypes = []string{"node.drain@1"} }, agentlifecycle.Install, true},
		{"a certificate that is over", broker.ByRebootstrap, broker.CertificateRepair, func(w *world) { w.node.CertNotAfter = w.clock.Now() }, agentlifecycle.Install, false},
		{"by a person", broker.ByManualInstall, broker.InPlaceUpgrade, nil, agentlifecycle.Install, true},
		{"by MAAS", broker.ByReimage, broker.InPlaceUpgrade, nil, agentlifecycle.Reimage, true},
		{"a certificate by MAAS", broker.ByReimage, broker.CertificateRepair, nil, agentlifecycle.Reimage, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if test.as != nil {
				test.as(w)
			}
			req := w.request(test.scenario)
			req.Mode = test.mode
			s, locks, err := agentlifecycle.New(w.place(), req)
			if err != nil || s.List != test.list || (s.Target != nil) != test.target {
				t.Fatalf("%s with %+v (%v), want %s", s.List, s.Target, err, test.list)
			}
			if slices.Contains(locks, "node/n-1") != (test.list != agentlifecycle.Reimage) || !slices.Contains(locks, "agent/n-1") {
				t.Errorf("locks %v", locks)
			}
			if (s.Because != "") != (s.List == agentlifecycle.Install && test.mode == broker.ByRebootstrap) {
				t.Errorf("because %q", s.Because)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	for _, test := range []struct {
		name string
		as   func(p *agentlifecycle.Place, r *agentlifecycle.Request)
		code string
	}{
		{"no such mode", func(_ *agentlifecycle.Place, r *agentlifecycle.Request) { r.Mode = "ssh" }, "agent_lifecycle_invalid"},
		{"no such scenario", func(_ *agentlifecycle.Place, r *agentlifecycle.Request) { r.Scenario = "shell" }, "agent_lifecycle_invalid"},
		{"no such policy", func(_ *agentlifecycle.Place, r *agentlifecycle.Request) { r.Safety = "yolo" }, "agent_lifecycle_invalid"},
		{"a node that is gone", func(p *agentlifecycle.Place, _ *agentlifecycle.Request) { p.Node.Status = broker.Deleted }, "node_status"},
		{"no release", func(p *agentlifecycle.Place, _ *agentlifecycle.Request) { p.Release = nil }, "release_missing"},
		{"below the floor", func(p *agentlifecycle.Place, _ *agentlifecycle.Request) { p.Floor = "1.5.0" }, "release_below_floor"},
		{"a rollback without a reason", func(p *agentlifecycle.Place, r *agentlifecycle.Request) {
			p.Floor, r.AllowRollback, r.Reason = "1.5.0", true, ""
		}, "reason_missing"},
		{"a reimage without a reason", func(_ *agentlifecycle.Place, r *agentlifecycle.Request) { r.Mode, r.Reason = broker.ByReimage, "" }, "reason_missing"},
		{"nothing to reconcile", func(p *agentlifecycle.Place, r *agentlifecycle.Request) {
			p.Standing, r.Scenario = broker.Standing{Drift: broker.AgentInSync}, broker.DriftReconcile
		}, "agent_in_sync"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			p, r := w.place(), w.request(broker.InPlaceUpgrade)
			test.as(&p, &r)
			if _, _, err := agentlifecycle.New(p, r); broker.AsError(err).Code != test.code {
				t.Errorf("%v, want %s", err, test.code)
			}
		})
	}
	w := newWorld(t)
	p, r := w.place(), w.request(broker.InPlaceUpgrade)
	p.Floor, r.AllowRollback = "1.5.0", true
	if _, _, err := agentlifecycle.New(p, r); err != nil {
		t.Errorf("a rollback that was asked for: %v", err)
	}
}

func TestTheRepairsTouchNoProgram(t *testing.T) {
	for scenario, want := range map[broker.DeliveryScenario]string{
		broker.CertificateRepair: "check_safety:succeeded rotate_identity:succeeded" + verified,
		broker.ConfigRepair:      "check_safety:succeeded update_trust:succeeded push_profiles:succeeded" + verified,
	} {
		t.Run(string(scenario), func(t *testing.T) {
			w := newWorld(t)
			w.node.TrustVersion, w.node.ResolverDigest = 2, "sha256:older"
			w.start(w.request(scenario))
			w.settle(time.Hour)
			if got := w.story(); got != want || w.run().Status != chain.Completed {
				t.Errorf("%s, and is %s", got, w.run().Status)
			}
			for _, k := range w.tasks {
				if k.Type == "node.self_update" {
					t.Error("a program was delivered")
				}
			}
			if last := w.told[len(w.told)-1]; last.Result != "confirmed" {
				t.Errorf("told %+v", last)
			}
		})
	}
	t.Run("what is right is left alone", func(t *testing.T) {
		w := newWorld(t)
		w.start(w.request(broker.ConfigRepair))
		w.settle(time.Hour)
		if got := w.story(); got != "check_safety:succeeded update_trust:skipped push_profiles:skipped"+verified {
			t.Error(got)
		}
	})
}

func TestAManualInstallIsLookedAtAsAnyOther(t *testing.T) {
	w := newWorld(t)
	req := w.request(broker.InPlaceUpgrade)
	req.Mode = broker.ByManualInstall
	w.start(req)
	w.settle(time.Hour)
	r := w.run()
	if r.Stage != "wait_for_install" || !strings.Contains(r.Waiting, "https://broker/p") || !strings.Contains(r.Waiting, "22") {
		t.Fatalf("%s waits for %q", r.Stage, r.Waiting)
	}
	w.renewed = w.clock.Now() // the old agent renews: not an install
	w.settle(time.Hour)
	if r := w.run(); r.Stage != "wait_for_install" || !strings.Contains(r.Waiting, "reports 1.3.0") {
		t.Fatalf("%s waits for %q", r.Stage, r.Waiting)
	}
	w.becomes("1.4.0")
	w.renewed = w.clock.Now()
	w.settle(time.Hour)
	if got := w.story(); got != "check_safety:succeeded wait_for_install:succeeded verify_version:succeeded"+verified || w.run().Status != chain.Completed {
		t.Errorf("%s, and is %s", got, w.run().Status)
	}
	if n := len(w.tasks); n != 1 {
		t.Errorf("%d tasks, and only its health was to be asked", n)
	}
}

// A person may take days, and a release may be revoked meanwhile: then the run no longer asks for
// the install.
func TestAnInstallOfWhatIsRevokedMeanwhileStops(t *testing.T) {
	w := newWorld(t)
	req := w.request(broker.InPlaceUpgrade)
	req.Mode = broker.ByManualInstall
	w.start(req)
	w.settle(time.Hour)
	w.mayGive = broker.Errorf(broker.Refused, "release_revoked", "it eats disks")
	w.becomes("1.4.0")
	w.renewed = w.clock.Now()
	w.settle(time.Hour)
	if r := w.run(); r.Status != chain.FailedRetryable || r.Stage != "wait_for_install" || r.Failure.Code != "release_revoked" {
		t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
}

func TestAMachineWithoutAnAgentIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.node.Epoch, w.node.CertNotAfter, w.renewed = 0, time.Time{}, time.Time{}
	w.start(w.request(broker.BootstrapInstall))
	w.settle(time.Hour)
	if r := w.run(); !strings.Contains(r.Waiting, "hostler node token issue n-1") {
		t.Fatalf("%s waits for %q", r.Stage, r.Waiting)
	}
	w.node.Epoch, w.renewed, w.node.CertNotAfter = 1, w.clock.Now(), w.clock.Now().Add(12*time.Hour)
	w.settle(time.Hour)
	if r := w.run(); r.Status != chain.Completed {
		t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
}

func TestAReimageIsFollowed(t *testing.T) {
	w := newWorld(t)
	req := w.request(broker.InPlaceUpgrade)
	req.Mode = broker.ByReimage
	w.start(req)
	w.settle(time.Hour)
	if r := w.run(); r.Stage != "wait_for_reimage" || !strings.Contains(r.Waiting, "deploy_via_maas") || w.reimagedN != 1 {
		t.Fatalf("%s waits for %q, begun %d times", r.Stage, r.Waiting, w.reimagedN)
	}
	w.turnover.Status, w.turnover.CompletedAt = chain.Completed, w.clock.Now()
	w.becomes("1.4.0")
	w.settle(time.Hour)
	if got := w.story(); got != "start_reimage:succeeded wait_for_reimage:succeeded verify_version:succeeded"+verified {
		t.Error(got)
	}
}

func TestACancelTakesBackWhatNobodyHasBegun(t *testing.T) {
	w := newWorld(t)
	w.does = nil
	w.start(w.request(broker.InPlaceUpgrade))
	w.settle(time.Minute)
	if _, err := w.engine.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.Cancel, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	w.settle(time.Minute)
	if r := w.run(); r.Status != chain.Cancelled {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	for _, k := range w.tasks {
		if k.Status != broker.TaskCanceled {
			t.Errorf("task %s is %s", k.ID, k.Status)
		}
	}
}

// An agent with an update may switch whatever it is asked later: the run keeps the node until the
// agent has reported.
func TestACancelWaitsForWhatTheNodeHasBegun(t *testing.T) {
	for _, test := range []struct {
		name   string
		ends   func(w *world, k *broker.Task)
		result string // recorded in the end; empty: no end was recorded
		reason string
		note   string
		events []string // beside those of the run
	}{
		{"it switched all the same", func(w *world, k *broker.Task) {
			w.well(k, taskcatalog.SelfUpdateParams{Version: "1.4.0"})
		}, "confirmed", "", "(1.3.0 to 1.4.0): confirmed", []string{broker.AgentUpdatedEvent}},
		{"it put it back", func(w *world, k *broker.Task) {
			w.ended(k, taskcatalog.SelfUpdateResult{FromVersion: "1.3.0", ToVersion: "1.4.0", Outcome: taskcatalog.UpdateRolledBack, Reason: "no_contact"})
			k.Status = broker.TaskFailed
		}, "rolled_back", "no_contact", "(1.3.0 to 1.4.0): rolled_back", []string{broker.AgentRolledBackEvent}},
		{"it left it", func(_ *world, k *broker.Task) { k.Status = broker.TaskCanceled }, "", "", "has not begun", nil},
		{"it says nothing", func(_ *world, k *broker.Task) {
			k.Status, k.Code = broker.TaskFailed, taskcatalog.CodeOutcomeUnknown
		}, "failed", "outcome_unknown", "did not report", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			var update *broker.Task
			w.does = func(k *broker.Task, _ any) { k.Status, k.Attempt, update = broker.TaskDispatched, 1, k }
			w.start(w.request(broker.InPlaceUpgrade))
			w.settle(time.Minute)
			if _, err := w.engine.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.Cancel, Reason: "no"}); err != nil {
				t.Fatal(err)
			}
			w.settle(3 * time.Hour)
			if r := w.run(); r.Status != chain.Compensating || !strings.Contains(r.Waiting, update.ID) || !update.CancelRequested {
				t.Fatalf("while the node has it the run is %s, waits for %q", r.Status, r.Waiting)
			}
			if _, err := w.engine.Start(ctx, chain.Start{ID: "other", Kind: agentlifecycle.Update.Kind(), Site: "dc1", State: agentlifecycle.Work{NodeID: "n-1"}, Locks: []string{"node/n-1"}}); err == nil {
				t.Fatal("somebody else has the node meanwhile")
			}
			test.ends(w, update)
			w.settle(time.Minute)
			if r := w.run(); r.Status != chain.Cancelled {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			last := w.told[len(w.told)-1]
			if test.result == "" && last.Result != agentlifecycle.Running || test.result != "" && (last.Result != test.result || last.Reason != test.reason) {
				t.Errorf("told %+v", last)
			}
			events, err := w.store.Events(ctx, "r")
			if err != nil {
				t.Fatal(err)
			}
			if e := events[len(events)-1]; e.Status != chain.Compensated || !strings.Contains(e.Message, test.note) {
				t.Errorf("the run says last %+v", e)
			}
			var told []string
			for _, m := range w.store.Outbox() {
				if m.Subject == "node/n-1" {
					told = append(told, m.Type)
				}
			}
			if !slices.Equal(told, test.events) {
				t.Errorf("of the node is told %v", told)
			}
		})
	}
}

// An announcement from the forward direction is not repeated.
func TestACancelOfARunThatWasPutBackTellsNothingTwice(t *testing.T) {
	w := newWorld(t)
	w.does = func(k *broker.Task, _ any) {
		w.ended(k, taskcatalog.SelfUpdateResult{FromVersion: "1.3.0", ToVersion: "1.4.0", Outcome: taskcatalog.UpdateRolledBack, Reason: "no_contact"})
		k.Status, k.Attempt = broker.TaskFailed, 1
	}
	w.start(w.request(broker.InPlaceUpgrade))
	w.settle(time.Hour)
	if _, err := w.engine.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.Cancel, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	w.settle(time.Minute)
	n := 0
	for _, m := range w.store.Outbox() {
		if m.Type == broker.AgentRolledBackEvent {
			n++
		}
	}
	if r := w.run(); r.Status != chain.Cancelled || n != 1 {
		t.Errorf("%s, and %d rollbacks were told of", r.Status, n)
	}
}

// A probe changes nothing: the undo does not wait for a silent agent's answer.
func TestACancelWaitsForNoProbe(t *testing.T) {
	w := newWorld(t)
	w.does = func(k *broker.Task, params any) {
		if w.well(k, params); k.Type == "node.heartbeat_check" {
			k.Status, k.Class, k.Attempt = broker.TaskDispatched, taskcatalog.ClassProbe, 1
		}
	}
	w.start(w.request(broker.InPlaceUpgrade))
	w.settle(time.Minute)
	if _, err := w.engine.Act(ctx, chain.Order{ID: "r", Actor: ada, Action: chain.Cancel, Reason: "no"}); err != nil {
		t.Fatal(err)
	}
	w.settle(time.Minute)
	if r := w.run(); r.Status != chain.Cancelled {
		t.Errorf("%s at %s, waits for %q", r.Status, r.Stage, r.Waiting)
	}
}
