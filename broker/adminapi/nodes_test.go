package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func act(t *testing.T, b *servertest.Broker, node, action string, in api.NodeAction) api.NodeActionResult {
	t.Helper()
	return servertest.Must[api.NodeActionResult](t, b, http.MethodPost, "/nodes/"+node+"/actions/"+action, in)
}

func refusedAction(t *testing.T, b *servertest.Broker, token, node, action string, in api.NodeAction, code string) {
	t.Helper()
	if a := b.Ask(t, token, http.MethodPost, "/nodes/"+node+"/actions/"+action, in); a.Code() != code {
		t.Errorf("%s of %s: %d %s, want %s", action, node, a.Status, a.Body, code)
	}
}

func show(t *testing.T, b *servertest.Broker, node string) api.Node {
	t.Helper()
	return servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/"+node, nil)
}

func TestANodeIsDrainedActivatedAndRemoved(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	if got := show(t, b, "h1"); got.Status != "active" || got.BaselineDigest == "" || got.Epoch != 1 {
		t.Fatalf("after the enrolment it is %+v", got)
	}
	refusedAction(t, b, b.Token, "h1", "remove", api.NodeAction{}, "transition_refused")
	refusedAction(t, b, b.Token, "h1", "resume", api.NodeAction{}, "nothing_to_resume")

	first := act(t, b, "h1", "drain", api.NodeAction{Reason: "service"})
	again := act(t, b, "h1", "drain", api.NodeAction{})
	resumed := act(t, b, "h1", "resume", api.NodeAction{})
	if first.Node.Status != "draining" || first.Task.ID != again.Task.ID || first.Task.ID != resumed.Task.ID {
		t.Fatalf("draining gave %s and the tasks %s, %s, %s", first.Node.Status, first.Task.ID, again.Task.ID, resumed.Task.ID)
	}
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{})
	if got := show(t, b, "h1"); got.Status != "retired" {
		t.Fatalf("after the drain it is %s", got.Status)
	}

	back := act(t, b, "h1", "activate", api.NodeAction{})
	if back.Node.Status != "active" || back.Task == nil || !strings.Contains(string(back.Task.Params), "resume") {
		t.Fatalf("activate gave %+v", back)
	}
	d, task = n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{}, taskcatalog.Report{})

	act(t, b, "h1", "retire", api.NodeAction{})
	d, task = n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{})
	removing := act(t, b, "h1", "remove", api.NodeAction{Reason: "end of life"})
	if removing.Node.Status != "removing" || removing.Task.Type != "node.uninstall" {
		t.Fatalf("remove gave %+v", removing)
	}
	d, task = n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.UninstallResult{Removes: []string{}}, taskcatalog.Report{})
	if got := show(t, b, n.NodeID); got.Status != "deleted" {
		t.Fatalf("after the uninstall it is %s", got.Status)
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/nodes/h1", nil); a.Code() != "node_not_found" {
		t.Errorf("a deleted node answers to its hostname: %d", a.Status)
	}

	line := servertest.Must[api.Timeline](t, b, http.MethodGet, "/nodes/"+n.NodeID+"/timeline?limit=1000", nil)
	seen := map[string]bool{}
	for i, e := range line.Items {
		seen[strings.TrimSpace(e.Kind+" "+e.What+" "+e.Status)] = true
		if i > 0 && e.At.Before(line.Items[i-1].At) {
			t.Errorf("the timeline goes back at %s", e.What)
		}
	}
	for _, what := range []string{"audit node.create", "task node.drain succeeded", "state node.transition"} {
		if !seen[what] {
			t.Errorf("the timeline lacks %s: %v", what, seen)
		}
	}
}

// The node is active before it is told to take its mark back. If that task is lost, a repeated
// request replaces it.
func TestActivateAgainTellsANodeThatIsStillDrained(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	if got := act(t, b, "h1", "activate", api.NodeAction{}); got.Task != nil {
		t.Fatalf("a node that was never drained got %s", got.Task.Type)
	}
	act(t, b, "h1", "drain", api.NodeAction{})
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{})
	lost := act(t, b, "h1", "activate", api.NodeAction{})
	servertest.Must[api.Task](t, b, http.MethodPost, "/tasks/"+lost.Task.ID+"/cancel", api.ReasonBody{Reason: "as if it had never been enqueued"})

	again := act(t, b, "h1", "activate", api.NodeAction{})
	if again.Node.Status != "active" || again.Task == nil || again.Task.ID == lost.Task.ID || !strings.Contains(string(again.Task.Params), "resume") {
		t.Fatalf("asked again it answered %+v", again)
	}
	if once := act(t, b, "h1", "activate", api.NodeAction{}); once.Task == nil || once.Task.ID != again.Task.ID {
		t.Errorf("while that is open it answered %+v", once.Task)
	}
	d, task = n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{}, taskcatalog.Report{})
	if done := act(t, b, "h1", "activate", api.NodeAction{}); done.Task != nil {
		t.Errorf("a node that has taken its mark back got %s", done.Task.ID)
	}
}

func TestForceAndOverrideNeedAnAdminAndAReason(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "dead"}).Settle(t)
	op := b.NewToken(t, api.TokenCreate{Name: "op", Role: "operator"})
	for _, row := range []struct{ action, code string }{{"retire", "role_insufficient"}, {"remove", "role_insufficient"}} {
		refusedAction(t, b, op, "dead", row.action, api.NodeAction{Force: true, Reason: "r"}, row.code)
	}
	refusedAction(t, b, op, "dead", "activate", api.NodeAction{Override: true, Reason: "r"}, "role_insufficient")
	refusedAction(t, b, b.Token, "dead", "retire", api.NodeAction{Force: true}, "reason_missing")

	if got := act(t, b, "dead", "retire", api.NodeAction{Force: true, Reason: "burnt"}); got.Node.Status != "retired" || got.Task != nil {
		t.Fatalf("a forced retire gave %+v", got)
	}
	if got := act(t, b, "dead", "remove", api.NodeAction{Force: true, Reason: "burnt"}); got.Node.Status != "deleted" {
		t.Fatalf("a forced remove gave %+v", got)
	}
	// Credentials left on the machine open nothing.
	servertest.Eventually(t, "its certificate to be denied", func() bool {
		_, code := tryWait(n, t)
		return code == "certificate_denied" || code == "node_deleted" || code == "connection"
	})
}

// tryWait polls once; a refused connection does not fail the test.
func tryWait(n *servertest.Node, t *testing.T) (status int, code string) {
	status, code, err := n.Try(http.MethodGet, "/tasks/wait?lanes=concurrent")
	if err != nil {
		return 0, "connection"
	}
	return status, code
}

func TestANodeThatNeverCameIsRemovedAtOnce(t *testing.T) {
	b := servertest.Start(t)
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	refusedAction(t, b, b.Token, "h1", "drain", api.NodeAction{}, "task_type_unsupported")
	if got := act(t, b, "h1", "remove", api.NodeAction{}); got.Node.Status != "deleted" {
		t.Fatalf("remove gave %+v", got)
	}
	if got := act(t, b, boot.Node.ID, "remove", api.NodeAction{}); got.Node.Status != "deleted" {
		t.Fatalf("removed again it is %s", got.Node.Status)
	}
	// The hostname is free again, under another id.
	next := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	if next.Node.ID == boot.Node.ID {
		t.Error("the id was given again")
	}
}

// A name of DNS may end in a dot, and has no case.
func TestAHostnameIsKeptWithoutItsCaseAndTheDotAtItsEnd(t *testing.T) {
	b := servertest.Start(t)
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "C07U43.dc1.example."})
	if boot.Node.Hostname != "c07u43.dc1.example" {
		t.Errorf("it is %q", boot.Node.Hostname)
	}
	for _, name := range []string{"", ".", "c07u43..", "c07 u43"} {
		if a := b.Ask(t, b.Token, http.MethodPost, "/nodes", api.NodeCreate{Hostname: name}); a.Status == http.StatusCreated || a.Status == http.StatusOK {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestAHostnamePresentTwiceIsRefusedWithItsCandidates(t *testing.T) {
	b := servertest.Start(t)
	b.OnRecord(t, "dc1", "dc2")
	one := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "twin", Site: "dc1"})
	two := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "twin", Site: "dc2"})
	if a := b.Ask(t, b.Token, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "twin", Site: "dc1"}); a.Code() != "hostname_taken" {
		t.Errorf("a third: %d %s", a.Status, a.Body)
	}
	a := b.Ask(t, b.Token, http.MethodGet, "/nodes/twin", nil)
	if a.Status != http.StatusConflict || a.Code() != "ambiguous_node" || !strings.Contains(string(a.Body), one.Node.ID) || !strings.Contains(string(a.Body), two.Node.ID) {
		t.Errorf("the name answers %d %s", a.Status, a.Body)
	}
	if got := show(t, b, "dc2%2Ftwin"); got.ID != two.Node.ID {
		t.Errorf("dc2/twin is %s", got.ID)
	}
}

func TestABootstrapIsShownOnceAndATokenIsExtendedTwice(t *testing.T) {
	b := servertest.Start(t)
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1", Bootstrap: "command", TTLSeconds: 600})
	if !strings.Contains(boot.Command, boot.Token) || !strings.Contains(boot.Command, boot.CASHA256) || boot.CloudConfig != "" || boot.Warning == "" {
		t.Fatalf("the bootstrap is %+v", boot)
	}
	cloud := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h2"})
	if !strings.HasPrefix(cloud.CloudConfig, "MIME-Version: 1.0\n") || !strings.Contains(cloud.CloudConfig, cloud.Token) || cloud.Command != "" {
		t.Fatalf("the bootstrap is %+v", cloud)
	}
	for _, path := range []string{"/nodes", "/nodes/h1", "/nodes/h1/timeline", "/audit", "/audit/export"} {
		if a := b.Ask(t, b.Token, http.MethodGet, path, nil); strings.Contains(string(a.Body), boot.Token) {
			t.Errorf("GET %s shows the token", path)
		}
	}
	for i := 1; i <= 2; i++ {
		got := servertest.Must[api.EnrollToken](t, b, http.MethodPost, "/nodes/h1/token/extend", api.TokenRequest{TTLSeconds: int64(3600 * i), Reason: "late"})
		if got.Extensions != i || !got.ExpiresAt.After(boot.ExpiresAt) {
			t.Errorf("extension %d gave %+v", i, got)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/nodes/h1/token/extend", api.TokenRequest{TTLSeconds: 86400}); a.Code() != "token_extended_twice" {
		t.Errorf("a third extension: %d %s", a.Status, a.Body)
	}
	// A new token makes the first one void.
	next := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes/h1/token", api.TokenRequest{})
	if next.Token == boot.Token {
		t.Fatal("the same token was issued")
	}
	if n := b.Enroll(t, next.Token, "h1"); n.NodeID != boot.Node.ID {
		t.Errorf("it enrolled as %s", n.NodeID)
	}
}

func TestLabelsAreMergedAndSelectNodes(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1", Labels: map[string]string{"rack": "r1", "old": "x"}})
	servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h2", Labels: map[string]string{"rack": "r2"}})
	got := servertest.Must[api.Node](t, b, http.MethodPut, "/nodes/h1/labels", api.Labels{Labels: map[string]string{"old": "", "pool": "a"}})
	if len(got.Labels) != 2 || got.Labels["pool"] != "a" || got.Labels["rack"] != "r1" {
		t.Errorf("its labels are %v", got.Labels)
	}
	page := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes?label=rack%3Dr1&label=pool%3Da", nil)
	if len(page.Items) != 1 || page.Items[0].Hostname != "h1" {
		t.Errorf("the labels select %+v", page.Items)
	}
	var all []api.Node
	for cursor := ""; ; {
		page := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes?limit=1&cursor="+cursor, nil)
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(all) != 2 {
		t.Errorf("page by page there are %d nodes", len(all))
	}
}

func TestATaskIsFollowedToItsEndAndItsEvidenceShown(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	send := api.TaskCreate{Type: "node.storage_cleanup", Params: json.RawMessage(`{"scope":"local"}`), IdempotencyKey: "k1"}
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", send)
	if repeat := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", send); repeat.ID != task.ID {
		t.Errorf("the same key made another task")
	}
	for name, row := range map[string]struct {
		task api.TaskCreate
		code string
	}{
		"other params under the key": {api.TaskCreate{Type: "node.storage_cleanup", Params: json.RawMessage(`{"scope":"local","no_trim":true}`), IdempotencyKey: "k1"}, "idempotency_conflict"},
		"unknown type":               {api.TaskCreate{Type: "node.shell"}, "unknown_type"},
		"unknown version":            {api.TaskCreate{Type: "node.drain", Version: 9}, "unknown_version"},
		"bad params":                 {api.TaskCreate{Type: "node.storage_cleanup", Params: json.RawMessage(`{"scope":"everything"}`)}, "bad_params"},
		"unknown params":             {api.TaskCreate{Type: "node.heartbeat_check", Params: json.RawMessage(`{"cmd":"id"}`)}, "bad_params"},
		"what the broker fills in":   {api.TaskCreate{Type: "node.validate_clean", Params: json.RawMessage(`{"policy":{}}`)}, "broker_filled_params"},
		"missing capability":         {api.TaskCreate{Type: "node.storage_cleanup", Params: json.RawMessage(`{"scope":"weka"}`)}, "capability_missing"},
		"a retry of nothing":         {api.TaskCreate{Type: "node.heartbeat_check", RetryOf: "t-none"}, "task_not_found"},
	} {
		if a := b.Ask(t, b.Token, http.MethodPost, "/nodes/h1/tasks", row.task); a.Code() != row.code || a.Status >= 500 {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, row.code)
		}
	}

	d, signed := n.Next(t)
	if signed.TraceParent == "" || !strings.Contains(signed.TraceParent, task.CorrelationID) {
		t.Errorf("the task carries the trace %q, and the request was %s", signed.TraceParent, task.CorrelationID)
	}
	n.Progress(t, d, wire.ProgressRequest{CurrentStepIndex: 1, TotalSteps: 2, CurrentStepName: "empty /tmp", StepStatus: "running", StepPercent: 50, StepStartedAt: b.Now()})
	moved := servertest.Must[api.Task](t, b, http.MethodGet, "/tasks/"+task.ID+"?wait=30&progress=none", nil)
	if moved.Progress == nil || moved.Progress.StepPercent != 50 || moved.Status != "dispatched" {
		t.Fatalf("with progress it is %+v", moved)
	}
	ended := make(chan api.Task, 1)
	go func() {
		at := moved.Progress.At.Format(time.RFC3339Nano)
		ended <- servertest.Must[api.Task](t, b, http.MethodGet, "/tasks/"+task.ID+"?wait=30&progress="+at, nil)
	}()
	report := taskcatalog.Report{}
	report.Dispose(taskcatalog.Disposition{Check: "tmp", Path: "/tmp/<script>alert(1)</script>\x1b[31m", Action: taskcatalog.ActionRemoved, Files: 1})
	n.Finish(t, d, signed, taskcatalog.OutcomeSucceeded, taskcatalog.StorageCleanupResult{FilesRemoved: 1}, report)
	if got := <-ended; got.Status != "succeeded" || !got.Ended || !got.Evidence {
		t.Fatalf("it ended as %+v", got)
	}

	a := b.Ask(t, b.Token, http.MethodGet, "/tasks/"+task.ID+"/evidence", nil)
	var ev api.Evidence
	if err := json.Unmarshal(a.Body, &ev); err != nil || ev.Evidence.TaskID != task.ID || ev.Evidence.Dispositions[0].Files != 1 {
		t.Fatalf("the evidence is %s, %v", a.Body, err)
	}
	if strings.Contains(string(a.Body), "<script>") || strings.ContainsRune(string(a.Body), 0x1b) {
		t.Errorf("what the node reported comes out as markup: %s", a.Body)
	}
}

func TestACanceledTaskIsStopped(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	queued := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	got := servertest.Must[api.Task](t, b, http.MethodPost, "/tasks/"+queued.ID+"/cancel", api.ReasonBody{Reason: "no need"})
	if got.Status != "canceled" {
		t.Errorf("a queued task is %s after a cancel", got.Status)
	}
	running := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	d, signed := n.Next(t)
	got = servertest.Must[api.Task](t, b, http.MethodPost, "/tasks/"+running.ID+"/cancel", api.ReasonBody{})
	if got.Status != "dispatched" || !got.CancelRequested {
		t.Errorf("a running task is %s, %v after a cancel", got.Status, got.CancelRequested)
	}
	if reply := n.Progress(t, d, wire.ProgressRequest{TotalSteps: 1, CurrentStepName: "x", StepStatus: "running", StepStartedAt: b.Now()}); len(reply.Cancel) != 1 {
		t.Errorf("the node is told to stop %v", reply.Cancel)
	}
	n.Finish(t, d, signed, taskcatalog.OutcomeCanceled, nil, taskcatalog.Report{})
	got = servertest.Must[api.Task](t, b, http.MethodGet, "/tasks/"+running.ID, nil)
	if got.Status != "canceled" {
		t.Errorf("it ended as %s", got.Status)
	}
	open := servertest.Must[api.TaskList](t, b, http.MethodGet, "/tasks?status=open&node=h1", nil)
	if len(open.Items) != 0 {
		t.Errorf("%d tasks are open", len(open.Items))
	}
}
