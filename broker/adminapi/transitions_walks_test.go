package adminapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// walk is the way of one node.
type walk struct {
	name, makes string
	leads       way
	// long says that the run's waits, or the walk itself, take so long that a test moves the clock
	// of the runs. On PostgreSQL runs use the server's clock, which no test can move.
	long bool
}

// way leads a node through a broker with the given options.
type way = func(t *testing.T, on ...func(*server.Config)) (b *servertest.Broker, nodeID string)

// arrives is the beginning of every node's walk.
const arrives = `
	bootstrap_issued enrolling onboarding
	enrolling active onboarding`

var walks = []walk{
	{"an agent falls silent and is heard again", arrives + `
		active offline heartbeat
		offline active heartbeat`, plain(func(w *walker) {
		w.until("offline", time.Minute)
		w.isHeard()
		w.until("active", 0)
	}), true},
	{"a node is kept out before it was let in", `
		bootstrap_issued enrolling onboarding
		enrolling quarantined operator`, func(t *testing.T, on ...func(*server.Config)) (*servertest.Broker, string) {
		b := servertest.Start(t, on...)
		n := b.NewNode(t, api.NodeCreate{Hostname: "h1"})
		act(t, b, "h1", "quarantine", api.NodeAction{Reason: "odd"})
		return b, n.NodeID
	}, false},
	{"a node that never came is removed", `
		bootstrap_issued deleted removal`, func(t *testing.T, on ...func(*server.Config)) (*servertest.Broker, string) {
		b := servertest.Start(t, on...)
		made := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
		act(t, b, "h1", "remove", api.NodeAction{})
		return b, made.Node.ID
	}, false},
	{"a node that was never let in is removed", `
		bootstrap_issued enrolling onboarding
		enrolling deleted removal`, func(t *testing.T, on ...func(*server.Config)) (*servertest.Broker, string) {
		b := servertest.Start(t, on...)
		n := b.NewNode(t, api.NodeCreate{Hostname: "h1"})
		act(t, b, "h1", "remove", api.NodeAction{})
		return b, n.NodeID
	}, false},
	{"an operator takes a node out of use and back", arrives + `
		active quarantined operator
		quarantined active operator
		active draining operator
		draining retired drain
		retired active operator
		active draining operator
		draining retired drain
		retired active operator_override
		active quarantined operator
		quarantined active operator_override`, plain(func(w *walker) {
		w.act("quarantine", "activate")
		for _, back := range []api.NodeAction{{}, {Override: true, Reason: "r"}} {
			w.act("drain")
			w.drains()
			act(w.t, w.Broker, w.NodeID, "activate", back)
			w.ends("node.drain", taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{})
		}
		w.act("quarantine")
		act(w.t, w.Broker, w.NodeID, "activate", api.NodeAction{Override: true, Reason: "r"})
	}), false},
	{"a drain is canceled", arrives + `
		active draining operator
		draining offline drain`, plain(func(w *walker) {
		k := act(w.t, w.Broker, w.NodeID, "drain", api.NodeAction{}).Task
		d, task := w.Next(w.t)
		servertest.Must[api.Task](w.t, w.Broker, http.MethodPost, "/tasks/"+k.ID+"/cancel", api.ReasonBody{Reason: "r"})
		w.Finish(w.t, d, task, taskcatalog.OutcomeCanceled, nil, taskcatalog.Report{})
	}), false},
	{"an operator goes on without the agent, up to a removal", arrives + `
		active draining operator
		draining offline operator
		offline quarantined operator
		quarantined draining operator
		draining offline operator
		offline draining operator
		draining retired drain
		retired removing removal
		removing retired operator
		retired removing removal
		removing retired removal
		retired removing removal
		removing deleted removal`, plain(func(w *walker) {
		w.goesOffline()
		w.act("quarantine", "drain", "activate", "drain")
		act(w.t, w.Broker, w.NodeID, "retire", api.NodeAction{Force: true, Reason: "r"})
		w.act("remove", "retire", "remove")
		w.ends("node.drain", taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{Drained: true}) // the earlier drain task
		w.ends("node.uninstall", taskcatalog.OutcomeFailed, nil)
		w.act("remove")
		w.ends("node.uninstall", taskcatalog.OutcomeSucceeded, taskcatalog.UninstallResult{Removes: []string{}})
	}), false},
	{"a turnover is cancelled in its drain, and after", arrives + `
		active draining turnover
		draining quarantined turnover
		quarantined draining turnover
		draining retired drain
		retired quarantined turnover`, plain(func(w *walker) {
		w.begins("soft_reset")
		w.until("draining", 0)
		w.cancels()
		w.begins("soft_reset")
		w.drains()
		w.cancels()
	}), false},
	{"a cleanup is cancelled that has begun", arrives + `
		active quarantined turnover`, plain(func(w *walker) {
		w.cleans()
		w.cancels()
	}), false},
	{"a cleanup of a silent node is cancelled", arrives + `
		active draining operator
		draining offline operator
		offline quarantined turnover`, plain(func(w *walker) {
		w.goesOffline()
		w.cleans()
		w.cancels()
	}), false},
	{"a silent node is turned over", arrives + `
		active draining operator
		draining offline operator
		offline draining turnover`, plain(func(w *walker) {
		w.goesOffline()
		w.begins("soft_reset")
		w.until("draining", 0)
	}), false},
	{"a node is turned over", arrives + `
		active draining turnover
		draining retired drain
		retired active turnover`, plain(func(w *walker) {
		w.begins("soft_reset")
		w.isCleaned(taskcatalog.VerdictClean)
		w.comesTo("active")
	}), false},
	{"a node is found unclean, and is clean when it is looked at again", arrives + `
		active draining turnover
		draining retired drain
		retired quarantined turnover
		quarantined active turnover`, plain(func(w *walker) {
		w.begins("soft_reset")
		w.isCleaned(taskcatalog.VerdictNotClean)
		w.comesTo("quarantined")
		w.orders("retry")
		w.looksAt(taskcatalog.VerdictClean)
		w.comesTo("active")
	}), true},
	{"a silent node leaves, once its agent is back", arrives + `
		active draining turnover
		draining retired turnover
		retired removing turnover
		removing retired turnover
		retired removing turnover
		removing deleted turnover`, plain(func(w *walker) {
		w.begins("full_decommission")
		w.stops(time.Minute)
		w.Advance(taskcatalog.ClassMutating.StartWindow()) // the earlier drain request has expired
		w.orders("retry")
		w.until("removing", 0)
		refusedAction(w.t, w.Broker, w.Token, w.NodeID, "retire", api.NodeAction{}, "node_in_run") // the removal is the run's
		w.ends("node.uninstall", taskcatalog.OutcomeSucceeded, taskcatalog.UninstallResult{Removes: []string{}})
		w.comesTo("deleted")
	}), true},
	{"MAAS has the machine of a node that is in use", arrives + `
		active quarantined reconciler`, inMAAS(func(*walker) {}), false},
	{"MAAS has the machine of a silent node", arrives + `
		active draining operator
		draining offline operator
		offline quarantined reconciler`, inMAAS((*walker).goesOffline), false},
	{"an onboarding begins anew before the agent came", `
		bootstrap_issued enrolling onboarding
		enrolling deleted onboarding_undo`, onboarded(func(r *rack, o api.OnboardingDetail) {
		servertest.Must[api.Onboarding](r.t, r.Broker, http.MethodPost, "/onboardings/"+o.OnboardingID+"/mark-manual-intervention", api.RunOrder{Reason: "r"})
		r.until(o.OnboardingID, "the run to stop", stopped)
	}), true},
	{"an onboarding begins anew whose checks kept the node out", `
		bootstrap_issued enrolling onboarding
		enrolling quarantined onboarding
		quarantined enrolling onboarding_undo`, onboarded(func(r *rack, o api.OnboardingDetail) {
		machine, _ := r.region.Machine(*o.MAASSystemID)
		r.Rested(r.t)
		n := r.EnrollMachine(r.t, string(enrolToken.Find(machine.UserData)), "c01", *o.MAASSystemID)
		w := &walker{Broker: r.Broker, Node: n, t: r.t}
		for try := range 5 {
			w.ends("node.validate_clean", taskcatalog.OutcomeFailed, nil)
			r.Advance(time.Minute<<try + time.Second)
		}
		w.isHeard()
		w.until("quarantined", 0)
		r.until(o.OnboardingID, "the run to stop", stopped)
	}), true},
}

func stopped(o api.OnboardingDetail) bool { return o.Status == "failed_manual_intervention" }

// plain is the way of an active node without a machine in MAAS.
func plain(leads func(*walker)) way {
	return func(t *testing.T, on ...func(*server.Config)) (*servertest.Broker, string) {
		b := servertest.Start(t, on...)
		boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
		w := &walker{Broker: b, Node: b.EnrollMachine(t, boot.Token, "h1", "", servertest.H100s(0)).Settle(t), t: t}
		leads(w)
		return b, w.NodeID
	}
}

// inMAAS is the way of a node whose machine is Ready although nobody has released it.
func inMAAS(first func(*walker)) way {
	return func(t *testing.T, on ...func(*server.Config)) (*servertest.Broker, string) {
		b, region, nodes, ids := reconciled(t, 1, on...)
		servertest.Must[api.SiteReconcilePolicy](t, b, http.MethodPut, "/maas-sites/dc1/reconciliation", `{"modes":{"released":"act"},"reason":"r"}`)
		first(&walker{Broker: b, Node: nodes[0], t: t})
		if err := region.ByHand(maassim.ReadyByHand, ids[0]); err != nil {
			t.Fatal(err)
		}
		b.Advance(2 * time.Second) // a list is valid for a second
		look(t, b)
		return b, nodes[0].NodeID
	}
}

// onboarded is the way of a node whose run restarts clean once its machine exists.
func onboarded(first func(*rack, api.OnboardingDetail)) way {
	return func(t *testing.T, on ...func(*server.Config)) (*servertest.Broker, string) {
		r := newRack(t, `{"require_hw_sync":false,"enable_phase2_roce":false}`, on...)
		id := r.start(r.box(1)).OnboardingID
		o := r.until(id, "the agent's turn", atStage("wait_for_agent_enrollment"))
		first(r, o)
		servertest.Must[api.Onboarding](t, r.Broker, http.MethodPost, "/onboardings/"+id+"/restart-clean", api.RunOrder{Reason: "r"})
		r.until(id, "another turn", func(again api.OnboardingDetail) bool {
			return again.CurrentStage == "wait_for_agent_enrollment" && again.Deploys > o.Deploys
		})
		return r.Broker, *o.NodeID
	}
}
