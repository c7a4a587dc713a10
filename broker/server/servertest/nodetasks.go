package servertest

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Settle answers the broker's request for a baseline, so that the node is active.
func (n *Node) Settle(t testing.TB) *Node {
	t.Helper()
	d, task := n.Next(t)
	if task.Type != "node.validate_clean" {
		t.Fatalf("the first task is %s, want node.validate_clean", task.Type)
	}
	baseline := taskcatalog.Baseline{TakenAt: n.b.Now().UTC(), Processes: []string{"/usr/sbin/sshd"}}
	baseline.Inventory.NICs = []string{"0c:42:a1:00:00:01"}
	digest, err := baseline.Digest()
	if err != nil {
		t.Fatal(err)
	}
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.ValidateCleanResult{BaselineDigest: digest, Baseline: &baseline},
		taskcatalog.Report{})
	return n
}

// Next waits for the next task and verifies it as a node does.
func (n *Node) Next(t testing.TB) (wire.Delivery, *taskcatalog.Task) {
	t.Helper()
	if len(n.more) == 0 {
		Eventually(t, "a task", func() bool {
			var found wire.WaitReply
			n.must(t, http.MethodGet, n.path("/tasks/wait?lanes=exclusive,concurrent"), nil, &found)
			n.more = found.Tasks
			return len(n.more) > 0
		})
	}
	d := n.more[0]
	n.more = n.more[1:]
	return d, n.Verified(t, d)
}

// Verified is the task of a delivery, verified as a node does.
func (n *Node) Verified(t testing.TB, d wire.Delivery) *taskcatalog.Task {
	t.Helper()
	env, err := pki.ParseEnvelope([]byte(d.Envelope))
	if err != nil {
		t.Fatal(err)
	}
	task, err := n.Trust.VerifyTask(env, n.b.Now())
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// Progress reports progress of a task.
func (n *Node) Progress(t testing.TB, d wire.Delivery, p wire.ProgressRequest) wire.ProgressReply {
	t.Helper()
	p.Attempt = d.Attempt
	var reply wire.ProgressReply
	n.must(t, http.MethodPost, n.path("/tasks/"+d.TaskID+"/progress"), p, &reply)
	return reply
}

// Mint asks for a secret for a task; code is the code of a refusal.
func (n *Node) Mint(t testing.TB, d wire.Delivery, credentialType string) (reply wire.MintReply, code string) {
	t.Helper()
	status, raw := n.do(t, http.MethodPost, n.path("/tasks/"+d.TaskID+"/credentials/mint"),
		wire.MintRequest{Attempt: d.Attempt, CredentialType: credentialType})
	var p wire.Problem
	if status/100 != 2 {
		if err := json.Unmarshal(raw, &p); err != nil {
			t.Fatal(err)
		}
		return reply, string(p.Code)
	}
	if err := taskcatalog.DecodeStrict(raw, &reply); err != nil {
		t.Fatal(err)
	}
	return reply, ""
}

// Finish ends a task with evidence signed by the node's key.
func (n *Node) Finish(
	t testing.TB, d wire.Delivery, task *taskcatalog.Task, outcome taskcatalog.Outcome, result any, report taskcatalog.Report,
) {
	t.Helper()
	n.finish(t, d, task, wire.ResultRequest{Outcome: outcome}, result, report)
}

// Fail ends a failed task with a code and a message.
func (n *Node) Fail(t testing.TB, d wire.Delivery, task *taskcatalog.Task, code taskcatalog.Code, message string) {
	t.Helper()
	n.FailWith(t, d, task, code, message, nil)
}

// FailWith is Fail with a result.
func (n *Node) FailWith(t testing.TB, d wire.Delivery, task *taskcatalog.Task, code taskcatalog.Code, message string, result any) {
	t.Helper()
	n.finish(t, d, task, wire.ResultRequest{Outcome: taskcatalog.OutcomeFailed, Code: code, Message: message}, result, taskcatalog.Report{})
}

func (n *Node) finish(
	t testing.TB, d wire.Delivery, task *taskcatalog.Task, req wire.ResultRequest, result any, report taskcatalog.Report,
) {
	t.Helper()
	var raw []byte
	digest := ""
	if result != nil {
		var err error
		if raw, err = taskcatalog.Encode(result); err != nil {
			t.Fatal(err)
		}
		digest = pki.Digest(raw)
	}
	now := n.b.Now().UTC()
	evidence, err := pki.SignEvidence(taskcatalog.Evidence{
		TaskID: task.TaskID, TaskDigest: pki.Digest([]byte(d.Envelope)), NodeID: n.NodeID, NodeEpoch: n.Epoch, BootID: "boot",
		Nonce: task.Nonce, StartedAt: now, FinishedAt: now, AgentVersion: "test", Outcome: req.Outcome, Code: req.Code,
		ResultDigest: digest, Report: report,
	}, n.key)
	if err != nil {
		t.Fatal(err)
	}
	req.Attempt, req.Result, req.Evidence = d.Attempt, json.RawMessage(raw), string(evidence)
	if collected, ok := result.(taskcatalog.DiagnosticsResult); ok {
		req.Archive = collected.Archive
	}
	n.must(t, http.MethodPost, n.path("/tasks/"+d.TaskID+"/result"), req, nil)
}

// Offered returns the deliveries for the node at this moment, without waiting for more.
func (n *Node) Offered(t testing.TB) []wire.Delivery {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.b.AgentURL()+n.path("/tasks/wait?lanes=exclusive,concurrent"),
		nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(wire.HeaderPrefer, wire.PreferNoWait)
	res, err := n.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	var found wire.WaitReply
	if err == nil && res.StatusCode != http.StatusNoContent {
		err = taskcatalog.DecodeStrict(raw, &found)
	}
	if err != nil || res.StatusCode/100 != 2 {
		t.Fatalf("%d %s, %v", res.StatusCode, raw, err)
	}
	return found.Tasks
}
