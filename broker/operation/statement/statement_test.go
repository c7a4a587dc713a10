package statement_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var update = flag.Bool("update", false, "write the files anew")

// A statement names every attempt of every step that a node has signed, and its status is that of its last task.
func TestAStatementSaysWhatTheNodeSigned(t *testing.T) {
	w := newWorld(t)
	file := must(statement.Issue(w.staged(), w.key))(t)
	r := must(statement.Verify(file, w.trust, w.now))(t)
	o := r.Operation
	if o.Status != statement.Succeeded || len(o.Steps) != 2 || r.Digest != pki.Digest(file) {
		t.Fatalf("%+v", r)
	}
	if s := o.Steps[1]; s.TaskID != "t-2" || s.StepKind != "artifact.pull_blob" || s.Digest != sum("content") || s.Status != taskcatalog.StepSucceeded {
		t.Errorf("%+v", s)
	}
	if s := o.Steps[0]; s.TaskID != "t-1" || s.Status != taskcatalog.StepFailed {
		t.Errorf("%+v", s)
	}
}

func TestTheStatusIsThatOfTheLastTaskOnEachNode(t *testing.T) {
	w := newWorld(t)
	good := w.prove("t-1", -10, taskcatalog.OutcomeSucceeded, "", result(taskcatalog.StepSucceeded, ""))
	bad := w.prove("t-2", -10, taskcatalog.OutcomeFailed, taskcatalog.CodeStepFailed, result(taskcatalog.StepFailed, ""))
	unproven, node := good, w.node.NodeID
	unproven.Proof = nil
	there := good
	there.NodeID = "n-zzzzzzzzzzzzzzzz"
	for name, row := range map[string]struct {
		tasks []statement.Task
		want  string
	}{
		"success":                     {[]statement.Task{bad, good}, statement.Succeeded},
		"failure after success":       {[]statement.Task{good, bad}, statement.Failed},
		"success without evidence":    {[]statement.Task{unproven}, statement.Failed},
		"a task that was lost":        {[]statement.Task{{ID: "t", NodeID: node, Outcome: taskcatalog.OutcomeFailed, Code: "outcome_unknown"}}, statement.Failed},
		"a task that never started":   {[]statement.Task{{ID: "t", NodeID: node, Code: "expired"}}, statement.Failed},
		"a task that was interrupted": {[]statement.Task{{ID: "t", NodeID: node, Outcome: taskcatalog.OutcomeInterrupted}}, statement.Failed},
		"a task that was canceled":    {[]statement.Task{{ID: "t", NodeID: node, Outcome: taskcatalog.OutcomeCanceled, Code: "canceled"}}, statement.Canceled},
		"a task that was withdrawn":   {[]statement.Task{{ID: "t", NodeID: node, Code: taskcatalog.CodeCanceled}}, statement.Canceled},
		"no task":                     {nil, statement.Canceled},
	} {
		if got := statement.StatusOf([]string{node}, row.tasks); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
	for name, row := range map[string]struct {
		tasks []statement.Task
		want  string
	}{
		"both succeed":           {[]statement.Task{good, there}, statement.Succeeded},
		"one fails":              {[]statement.Task{there, bad}, statement.Failed},
		"one was never asked":    {[]statement.Task{good}, statement.Canceled},
		"one fails, one is none": {[]statement.Task{bad}, statement.Failed},
	} {
		if got := statement.StatusOf([]string{node, there.NodeID}, row.tasks); got != row.want {
			t.Errorf("of two nodes, %s: %s, want %s", name, got, row.want)
		}
	}
	if got := statement.StatusOf(nil, []statement.Task{good}); got == statement.Succeeded {
		t.Error("an operation without nodes succeeds")
	}
}

// A statement is refused if its content is not what the node signed, even if the statement key signs it.
func TestAContradictoryStatementIsRefused(t *testing.T) {
	w := newWorld(t)
	for name, row := range map[string]struct {
		change func(*statement.Operation)
		code   taskcatalog.Code
	}{
		"as it is":                {func(*statement.Operation) {}, ""},
		"a status that is better": {func(o *statement.Operation) { o.Tasks, o.Steps = o.Tasks[:1], o.Steps[:1] }, statement.CodeStatusUnfounded},
		"a failure as canceled": {func(o *statement.Operation) {
			o.Tasks, o.Steps, o.Status = o.Tasks[:1], o.Steps[:1], statement.Canceled
		}, statement.CodeStatusUnfounded},
		"another code":          {func(o *statement.Operation) { o.Tasks[0].Code = "canceled" }, statement.CodeEvidenceWrongTask},
		"a node left out":       {func(o *statement.Operation) { o.NodeIDs = append(o.NodeIDs, "n-zzzzzzzzzzzzzzzz") }, statement.CodeStatusUnfounded},
		"a step that is better": {func(o *statement.Operation) { o.Steps[0].Status = taskcatalog.StepSucceeded }, statement.CodeStepsContradicted},
		"a step left out":       {func(o *statement.Operation) { o.Steps = o.Steps[1:] }, statement.CodeStepsContradicted},
		"a step more":           {func(o *statement.Operation) { o.Steps = append(o.Steps, o.Steps[1]) }, statement.CodeStepsContradicted},
		"another artifact":      {func(o *statement.Operation) { o.Steps[1].Digest = sum("other") }, statement.CodeStepsContradicted},
		"another operation":     {func(o *statement.Operation) { o.OperationID = "op-2" }, statement.CodeEvidenceWrongResult},
		"another version":       {func(o *statement.Operation) { o.Operation = "model.artifact.stage@v2" }, statement.CodeEvidenceWrongResult},
		"another definition":    {func(o *statement.Operation) { o.DefinitionDigest = sum("other") }, statement.CodeEvidenceWrongResult},
		"other inputs":          {func(o *statement.Operation) { o.InputsDigest = sum("other") }, statement.CodeEvidenceWrongResult},
		"another node": {func(o *statement.Operation) {
			o.NodeIDs[0], o.Tasks[0].NodeID, o.Tasks[1].NodeID = "n-zzzzzzzzzzzzzzzz", "n-zzzzzzzzzzzzzzzz", "n-zzzzzzzzzzzzzzzz"
		}, statement.CodeEvidenceWrongNode},
		"a node more":     {func(o *statement.Operation) { o.Tasks[0].NodeID = "n-zzzzzzzzzzzzzzzz" }, statement.CodeIncomplete},
		"another task":    {func(o *statement.Operation) { o.Tasks[0].ID = "t-9" }, statement.CodeEvidenceWrongTask},
		"another plan":    {func(o *statement.Operation) { o.Tasks[0].Digest = sum("other") }, statement.CodeEvidenceWrongTask},
		"another outcome": {func(o *statement.Operation) { o.Tasks[0].Outcome = taskcatalog.OutcomeSucceeded }, statement.CodeEvidenceWrongTask},
		"another result":  {func(o *statement.Operation) { o.Tasks[0].Proof.Result = o.Tasks[1].Proof.Result }, statement.CodeEvidenceWrongResult},
		"another key":     {func(o *statement.Operation) { o.Tasks[0].Proof.Certificate = w.ca.Cert.Raw }, statement.CodeEvidenceWrongKey},
		"no certificate":  {func(o *statement.Operation) { o.Tasks[0].Proof.Certificate = nil }, statement.CodeEvidenceWrongKey},
		"evidence that is no evidence": {func(o *statement.Operation) {
			o.Tasks[0].Proof.Evidence = "{}"
		}, statement.CodeEvidenceWrongKey},
		"evidence from before": {func(o *statement.Operation) { o.RequestedAt = w.now.Add(-15 * time.Minute) }, statement.CodeEvidenceStale},
		"evidence from after":  {func(o *statement.Operation) { o.FinishedAt = w.now.Add(-25 * time.Minute) }, statement.CodeEvidenceLate},
		"a task twice":         {func(o *statement.Operation) { o.Tasks = append(o.Tasks, o.Tasks[1]) }, statement.CodeIncomplete},
		"no operation":         {func(o *statement.Operation) { o.OperationID = "" }, statement.CodeIncomplete},
		"no digest":            {func(o *statement.Operation) { o.InputsDigest = "" }, statement.CodeIncomplete},
		"no attempt":           {func(o *statement.Operation) { o.Attempt = 0 }, statement.CodeIncomplete},
		"no status":            {func(o *statement.Operation) { o.Status = "" }, statement.CodeIncomplete},
		"a worse status":       {func(o *statement.Operation) { o.Status, o.Code = statement.Failed, "result_incomplete" }, ""},
		"no times":             {func(o *statement.Operation) { o.RequestedAt = time.Time{} }, statement.CodeIncomplete},
		"an end before the beginning": {func(o *statement.Operation) {
			o.FinishedAt = o.RequestedAt.Add(-time.Minute)
		}, statement.CodeIncomplete},
		"from the future": {func(o *statement.Operation) { o.IssuedAt = w.now.Add(time.Hour) }, statement.CodeIssuedLater},
	} {
		t.Run(name, func(t *testing.T) {
			r := must(statement.Verify(must(statement.Issue(w.staged(), w.key))(t), w.trust, w.now))(t)
			o := r.Operation
			o.NodeIDs, o.Tasks, o.Steps = slices.Clone(o.NodeIDs), slices.Clone(o.Tasks), slices.Clone(o.Steps)
			for i := range o.Tasks {
				proof := *o.Tasks[i].Proof
				o.Tasks[i].Proof = &proof
			}
			row.change(&o)
			_, err := statement.Verify(must(statement.SignedAs(o, w.key))(t), w.trust, w.now)
			if code(err) != string(row.code) {
				t.Errorf("%v, want %q", err, row.code)
			}
		})
	}
}

// A success without a result proves nothing, and evidence of another enrolment neither: the statement says
// that the task is unproven, and no success.
func TestAProofThatDoesNotHoldIsLeftOut(t *testing.T) {
	w := newWorld(t)
	good := result(taskcatalog.StepSucceeded, "")
	for name, row := range map[string]struct {
		task statement.Task
		code taskcatalog.Code
	}{
		"no result":         {w.prove("t-1", -10, taskcatalog.OutcomeSucceeded, "", nil), statement.CodeEvidenceWrongResult},
		"another enrolment": {w.prove("t-1", -10, taskcatalog.OutcomeSucceeded, "", good, func(e *taskcatalog.Evidence) { e.NodeEpoch = 2 }), statement.CodeEvidenceWrongNode},
		"a clock that is wrong": {w.prove("t-1", -10, taskcatalog.OutcomeSucceeded, "", good, func(e *taskcatalog.Evidence) {
			e.StartedAt = w.now.Add(-48 * time.Hour)
		}), statement.CodeEvidenceStale},
	} {
		o := w.staged()
		o.Tasks = []statement.Task{row.task}
		r := must(statement.Verify(must(statement.Issue(o, w.key))(t), w.trust, w.now))(t)
		if got := r.Operation; got.Status != statement.Failed || got.Tasks[0].Unproven != row.code || got.Tasks[0].Proof != nil || len(got.Steps) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	o := w.staged()
	o.Tasks = []statement.Task{w.prove("t-1", -10, taskcatalog.OutcomeFailed, "handler_failed", nil)} // the node said nothing but that
	r := must(statement.Verify(must(statement.Issue(o, w.key))(t), w.trust, w.now))(t)
	if got := r.Operation; got.Status != statement.Failed || got.Tasks[0].Code != "handler_failed" || got.Tasks[0].Proof == nil || len(got.Steps) != 0 {
		t.Errorf("%+v", got)
	}
}

// Results that are too long are left out, then evidence: a statement can always be signed, and says so.
func TestAStatementOfManyLongResultsCanBeSigned(t *testing.T) {
	w := newWorld(t)
	long := result(taskcatalog.StepSucceeded, "")
	long.Steps[0].Message = strings.Repeat("\"", 900)
	for range 600 {
		long.Steps = append(long.Steps, long.Steps[0])
	}
	o := w.staged()
	o.Tasks, o.NodeIDs = nil, nil
	wide := func(e *taskcatalog.Evidence) {
		e.Findings = []taskcatalog.Finding{{Check: "x", Subject: strings.Repeat("y", 300<<10)}}
	}
	for i := range 30 {
		var edit []func(*taskcatalog.Evidence)
		if i >= 15 {
			edit = append(edit, wide)
		}
		o.Fit(w.prove(fmt.Sprint("t-", i), -10, taskcatalog.OutcomeSucceeded, "", long, edit...))
	}
	o.NodeIDs = []string{w.node.NodeID}
	r := must(statement.Verify(must(statement.Issue(o, w.key))(t), w.trust, w.now))(t)
	whole, without, unproven := 0, 0, 0
	for _, k := range r.Operation.Tasks {
		switch {
		case k.Unproven == pki.CodeTooLarge:
			unproven++
		case k.Proof.ResultOmitted:
			without++
		default:
			whole++
		}
	}
	if whole == 0 || without == 0 || unproven == 0 || len(r.Operation.Tasks) != 30 || len(r.Operation.Steps) != 601*whole {
		t.Errorf("%d whole, %d without result, %d unproven, %d steps", whole, without, unproven, len(r.Operation.Steps))
	}

	// An omitted result is no way to hide one.
	o = w.staged()
	o.Tasks[1].Proof.ResultOmitted = true
	if r := must(statement.Verify(must(statement.Issue(o, w.key))(t), w.trust, w.now))(t); r.Operation.Tasks[1].Unproven != statement.CodeEvidenceWrongResult {
		t.Errorf("%+v", r.Operation.Tasks[1])
	}
}

func TestOnlyTheStatementKeyMakesAStatement(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"task", "trust", "stranger"} {
		file := must(statement.Issue(w.staged(), must(pki.NewSigner(key(name)))(t)))(t)
		if _, err := statement.Verify(file, w.trust, w.now); err == nil {
			t.Errorf("a statement by the key %s is believed", name)
		}
	}
	file := must(statement.Issue(w.staged(), w.key))(t)
	for _, changed := range [][]byte{append(slices.Clone(file), '\n'), bytes.Replace(file, []byte("{"), []byte("{ "), 1), file[:len(file)-1], nil} {
		if _, err := statement.Verify(changed, w.trust, w.now); err == nil {
			t.Errorf("a changed file is believed")
		}
	}
}

// Of any input, only the issued file is believed, to the byte; whatever the key signs is refused with a code,
// or has the status and steps of its proofs.
func FuzzVerify(f *testing.F) {
	w := newWorld(f)
	file := must(statement.Issue(w.staged(), w.key))(f)
	f.Add(file)
	f.Add(bytes.Replace(file, []byte("payload"), []byte("Payload"), 1))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, input []byte) {
		_, err := statement.Verify(input, w.trust, w.now)
		switch {
		case err == nil && !bytes.Equal(input, file):
			t.Error("a file is believed that nobody has signed")
		case err != nil && code(err) == "without a code":
			t.Errorf("refused without a code: %v", err)
		}
	})
}

func FuzzPayload(f *testing.F) {
	w := newWorld(f)
	file := must(statement.Issue(w.staged(), w.key))(f)
	env := must(pki.ParseStatement(file))(f)
	payload, _, err := w.trust.VerifyStatement(env, func([]byte) (time.Time, error) { return w.now, nil })
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v1","predicateType":"https://hostler.dev/operation/v1"}`))
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v1","predicateType":"https://hostler.dev/clean-certificate/v1"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		signed, err := pki.SignStatement(payload, w.key)
		if err != nil {
			return
		}
		r, err := statement.Verify(signed, w.trust, w.now)
		switch {
		case err != nil && code(err) == "without a code":
			t.Errorf("refused without a code: %v", err)
		case err == nil && r.Operation.Status == statement.Succeeded && statement.StatusOf(r.Operation.NodeIDs, r.Operation.Tasks) != statement.Succeeded:
			t.Errorf("%+v", r.Operation)
		}
	})
}

// The files of this version verify for ever.
func TestAnIssuedStatementStaysAuthentic(t *testing.T) {
	w := newWorld(t)
	failed := w.staged()
	failed.Tasks = failed.Tasks[:1]
	for name, file := range map[string][]byte{
		"staged.json": must(statement.Issue(w.staged(), w.key))(t), "failed.json": must(statement.Issue(failed, w.key))(t), "trust.json": w.trustFile(),
		"receipt.json": w.receipt(w.staged()),
	} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		kept := must(os.ReadFile(path))(t)
		if !bytes.Equal(kept, file) {
			t.Errorf("%s is made in another form now: no field of version 1 may change (-update writes it anew before a release)", name)
		}
	}
	if r, err := statement.Verify(must(os.ReadFile("testdata/failed.json"))(t), w.trust, w.now); err != nil || r.Operation.Status != statement.Failed {
		t.Errorf("%+v %v", r, err)
	}
}
