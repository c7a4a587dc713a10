package statement_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// plan has the step that tasks of a world report.
var plan = taskcatalog.OperationPlan{Steps: []taskcatalog.PlannedStep{{ID: "pull", Kind: "artifact.pull_blob"}}}

// receipt is the receipt of an operation.
func (w *world) receipt(o statement.Operation) []byte {
	w.t.Helper()
	return must(statement.IssueReceipt(o, must(statement.Issue(o, w.key))(w.t), plan, w.key))(w.t)
}

// payloadOf is what an envelope signs.
func payloadOf(t *testing.T, file []byte) string {
	t.Helper()
	var env struct{ Payload string }
	if err := json.Unmarshal(file, &env); err != nil {
		t.Fatal(err)
	}
	return string(must(base64.StdEncoding.DecodeString(env.Payload))(t))
}

// A receipt has what a tenant may know of a statement, and the statement's digest.
func TestAReceiptSaysWhatWasDoneAndNotWhere(t *testing.T) {
	w := newWorld(t)
	o := w.staged()
	full := must(statement.Issue(o, w.key))(t)
	file := w.receipt(o)
	got := must(statement.Verify(file, w.trust, w.now))(t)
	r := got.Receipt
	if r == nil || got.Status() != statement.Succeeded || r.StatementDigest != pki.Digest(full) || r.ProjectID != "p-1" || r.AllocationID != "alc-1" ||
		r.OperationID != "op-1" || r.Nodes != 1 || r.Proven != 1 || got.Digest != pki.Digest(file) || !got.IssuedAt().Equal(o.IssuedAt) {
		t.Fatalf("%+v, %+v", got, r)
	}
	if len(r.Steps) != 2 || r.Steps[0].Status != taskcatalog.StepFailed || r.Steps[1].Digest != sum("content") || r.Steps[1].StepKind != "artifact.pull_blob" ||
		r.Steps[1].Place != 1 || r.Steps[1].Bytes != 200<<20 {
		t.Errorf("%+v", r.Steps)
	}
	text := payloadOf(t, file)
	for _, secret := range []string{w.node.NodeID, "t-1", "t-2", "/var/lib/models", "node_id", "task_id", "certificate"} {
		if strings.Contains(text, secret) {
			t.Errorf("it names %s: %s", secret, text)
		}
	}
}

// What a node calls its steps, codes and contents reaches no tenant.
func TestAReceiptHasNoWordsOfANode(t *testing.T) {
	w := newWorld(t)
	said := result(taskcatalog.StepSucceeded, "serial PF2X9")
	said.Steps[0].StepKind, said.Steps[0].ErrorCode, said.Steps[0].Message = "kind of gpu-07", "Rack 12 gpu-07", "on gpu-07"
	said.Steps[0].ResolvedProfile, said.Steps[0].HardwareMatch = "gpu-07", "gpu-07"
	more := said.Steps[0]
	more.ID = "gpu-07"
	odd := said.Steps[0]
	odd.Status = "gpu-07"
	said.Steps = append(said.Steps, more, odd)
	o := w.staged()
	o.Tasks = []statement.Task{w.prove("t-1", -10, taskcatalog.OutcomeSucceeded, "", said)}
	o.Code = "Rack 12"
	file := w.receipt(o)
	r := must(statement.Verify(file, w.trust, w.now))(t).Receipt
	if len(r.Steps) != 1 || r.Steps[0].StepKind != "artifact.pull_blob" || r.Steps[0].ErrorCode != "other" || r.Steps[0].Digest != "" || r.Code != "other" {
		t.Errorf("%+v", r)
	}
	text := payloadOf(t, file)
	for _, secret := range []string{"gpu-07", "PF2X9", "Rack"} {
		if strings.Contains(text, secret) {
			t.Errorf("it says %s: %s", secret, text)
		}
	}
}

// A receipt without evidence is none of a success, and one that lacks something is refused, whoever signed it.
func TestAReceiptThatItsContentDoesNotBearOutIsRefused(t *testing.T) {
	w := newWorld(t)
	o := w.staged()
	o.Tasks[1].Proof = nil
	r := must(statement.Verify(w.receipt(o), w.trust, w.now))(t).Receipt
	if r.Status != statement.Failed || r.Proven != 0 {
		t.Errorf("%+v", r)
	}
	good := *must(statement.Verify(w.receipt(w.staged()), w.trust, w.now))(t).Receipt
	for want, change := range map[taskcatalog.Code]func(r *statement.Receipt){
		"":                              func(*statement.Receipt) {},
		statement.CodeStatusUnfounded:   func(r *statement.Receipt) { r.Proven = 0 },
		statement.CodeIncomplete:        func(r *statement.Receipt) { r.AllocationID = "" },
		"  ":                            func(r *statement.Receipt) { r.AllocationID, r.AllocationIDs = "", []string{"alc-1", "alc-2"} },
		statement.CodeIncomplete + " 1": func(r *statement.Receipt) { r.AllocationIDs = []string{"alc-2"} },
		statement.CodeIncomplete + " 2": func(r *statement.Receipt) { r.StatementDigest = "" },
		statement.CodeIncomplete + " 3": func(r *statement.Receipt) { r.Status = "fine" },
		statement.CodeIncomplete + " 4": func(r *statement.Receipt) { r.FinishedAt = r.RequestedAt.Add(-time.Second) },
		statement.CodeIncomplete + " 5": func(r *statement.Receipt) { r.Steps[0].Place = 2 },
		statement.CodeIssuedLater:       func(r *statement.Receipt) { r.IssuedAt = w.now.Add(time.Hour) },
	} {
		changed := good
		changed.Steps = append([]statement.ReceiptStep{}, good.Steps...)
		change(&changed)
		_, err := statement.Verify(must(statement.ReceiptSignedAs(changed, w.key))(t), w.trust, w.now)
		if first, _, _ := strings.Cut(string(want), " "); code(err) != first {
			t.Errorf("%s: %v", want, err)
		}
	}
	other := must(pki.NewSigner(key("other")))(t)
	if _, err := statement.Verify(must(statement.ReceiptSignedAs(good, other))(t), w.trust, w.now); code(err) != "unknown_key" {
		t.Errorf("by a stranger: %v", err)
	}
}
