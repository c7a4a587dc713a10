package adminapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// walker leads a node.
type walker struct {
	*servertest.Broker
	*servertest.Node
	t   *testing.T
	run string // of the last turnover
}

// act has an operator take one action after another.
func (w *walker) act(actions ...string) {
	w.t.Helper()
	for _, a := range actions {
		act(w.t, w.Broker, w.NodeID, a, api.NodeAction{Reason: "r"})
	}
}

// until lets time pass, in steps of pass, until the node has a status.
func (w *walker) until(status string, pass time.Duration) {
	w.t.Helper()
	last := ""
	if !w.LetPass(func() (bool, time.Duration) {
		last = show(w.t, w.Broker, w.NodeID).Status
		return last == status, pass
	}) {
		w.t.Fatalf("waited in vain for the node to be %s: it is %s; the run is %+v", status, last, w.turnover())
	}
}

// comesTo lets time pass until a run has brought the node to a status.
func (w *walker) comesTo(status string) {
	w.t.Helper()
	w.until(status, whileWaiting("its run"))
}

// isHeard has the agent make a request. The broker identifies the agent before it checks the
// request, and answers this request at once.
func (w *walker) isHeard() {
	w.t.Helper()
	w.Rested(w.t)
	if status, code, err := w.Try(http.MethodGet, "/tasks/wait?lanes=none"); err != nil || code != "bad_lanes" {
		w.t.Fatalf("the node is answered %d %s, %v", status, code, err)
	}
}

// goesOffline has an operator call off the drain of a node that is no longer heard.
func (w *walker) goesOffline() {
	w.t.Helper()
	w.act("drain")
	w.Advance(5 * time.Minute)
	w.act("activate")
}

// ends has the agent carry out its next task.
func (w *walker) ends(taskType string, outcome taskcatalog.Outcome, result any) {
	w.t.Helper()
	w.Rested(w.t)
	d, task := w.Next(w.t)
	if task.Type != taskType {
		w.t.Fatalf("the next task is %s, want %s", task.Type, taskType)
	}
	w.Finish(w.t, d, task, outcome, result, taskcatalog.Report{})
}

func (w *walker) drains() {
	w.t.Helper()
	w.until("draining", 0)
	w.ends("node.drain", taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{Drained: true})
	w.until("retired", 0)
}

// begins starts a turnover.
func (w *walker) begins(mode string) {
	w.t.Helper()
	w.run = servertest.Must[api.Decommission](w.t, w.Broker, http.MethodPost, "/nodes/"+w.NodeID+"/decommission", api.DecommissionStart{
		Mode: mode, StorageCleanup: "none", Reason: "r",
	}).DecommissionID
}

// cleans starts a cleanup of the node's storage, and waits until the agent has the task.
func (w *walker) cleans() {
	w.t.Helper()
	w.run = servertest.Must[api.Decommission](w.t, w.Broker, http.MethodPost, "/nodes/"+w.NodeID+"/storage-cleanup", api.StorageCleanupStart{Scope: "local", Reason: "r"}).DecommissionID
	servertest.Eventually(w.t, "the cleanup to be asked for", func() bool {
		return len(servertest.Must[api.TaskList](w.t, w.Broker, http.MethodGet, "/tasks?type=node.storage_cleanup&node="+w.NodeID, nil).Items) > 0
	})
}

func (w *walker) turnover() (d api.DecommissionDetail) {
	w.t.Helper()
	if w.run != "" {
		d = servertest.Must[api.DecommissionDetail](w.t, w.Broker, http.MethodGet, "/decommissions/"+w.run, nil)
	}
	return d
}

func (w *walker) orders(action string) {
	w.t.Helper()
	servertest.Must[api.Decommission](w.t, w.Broker, http.MethodPost, "/decommissions/"+w.run+"/"+action, api.RunOrder{Reason: "r"})
}

func (w *walker) cancels() {
	w.t.Helper()
	w.orders("cancel")
	if !w.LetPass(func() (bool, time.Duration) {
		d := w.turnover()
		return d.Ended, whileWaiting(d.Waiting)
	}) {
		w.t.Fatalf("the run is not cancelled: %+v", w.turnover())
	}
}

// stops waits until the run needs a person.
func (w *walker) stops(pass time.Duration) {
	w.t.Helper()
	if !w.LetPass(func() (bool, time.Duration) {
		d := w.turnover()
		return d.Status == "failed_manual_intervention" || d.Status == "failed_retryable", pass
	}) {
		w.t.Fatalf("the run goes on: %+v", w.turnover())
	}
}

// isCleaned has the agent carry out a soft reset, up to a final check with verdict v, and the work
// that follows a clean verdict.
func (w *walker) isCleaned(v taskcatalog.Verdict) {
	w.t.Helper()
	w.drains()
	w.turnOf("rotate_node_identity")
	d, task := w.Next(w.t)
	w.Rotate(w.t, d, task)
	w.looksAt(v)
}

func (w *walker) looksAt(v taskcatalog.Verdict) {
	w.t.Helper()
	w.turnOf("validate_clean_node")
	d, task := w.Next(w.t)
	report := taskcatalog.Report{}
	for _, name := range taskcatalog.LookedAt() {
		report.Checks = append(report.Checks, taskcatalog.Check{Name: name, Made: true})
	}
	if v == taskcatalog.VerdictNotClean {
		report.Find(taskcatalog.Finding{Check: "users", Subject: "mallory"})
	}
	report.Judge()
	w.Finish(w.t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ValidateCleanResult{
		Verdict: report.Verdict, Findings: len(report.Findings), ChecksMade: len(report.Checks),
	}, report)
	if v == taskcatalog.VerdictClean {
		w.turnOf("enable_node")
		w.ends("node.drain", taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{})
	}
}

// turnOf lets time pass until the run reaches a stage.
func (w *walker) turnOf(stage string) {
	w.t.Helper()
	if !w.LetPass(func() (bool, time.Duration) {
		d := w.turnover()
		return d.CurrentStage == stage && d.Waiting != "", whileWaiting(d.Waiting)
	}) {
		w.t.Fatalf("the run does not come to %s: %+v", stage, w.turnover())
	}
	w.Rested(w.t)
}
