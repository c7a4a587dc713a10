package plan

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

// book is a journal on a disk that does not fail unless told to. What it returns was JSON in between.
type book struct {
	kept map[string][]byte
	// put is called around each write, with done false and then true. An error refuses the write.
	put func(done bool) error
}

func newBook() *book { return &book{kept: map[string][]byte{}, put: func(bool) error { return nil }} }

func (b *book) Operation(id string) (r host.OperationRecord, known bool, err error) {
	raw, known := b.kept[id]
	if known {
		err = taskcatalog.DecodeLoose(raw, &r)
	}
	return r, known, err
}

func (b *book) PutOperation(id string, r host.OperationRecord) error {
	if err := b.put(false); err != nil {
		return err
	}
	raw, err := taskcatalog.Encode(r)
	if err != nil {
		return err
	}
	b.kept[id] = raw
	return b.put(true)
}

// lab is a node with a journal, on which kinds of steps are replaced.
type lab struct {
	*testing.T
	host    *host.Host
	dir     string
	systemd *hosttest.Systemd
	book    *book
	kinds   map[string]steps.Kind
	lost    string // a kind without code
	mint    func(step, credentialType string) ([]byte, error)
	paused  []time.Duration
	said    []string // progress
}

func newLab(t *testing.T) *lab {
	h, dir := hosttest.Box(t)
	l := &lab{T: t, host: h, dir: dir, systemd: h.Systemd.(*hosttest.Systemd), book: newBook(), kinds: map[string]steps.Kind{}}
	l.systemd.Obeys = true
	l.mint = func(string, string) ([]byte, error) { return nil, errors.New("nothing is minted here") }
	return l
}

func (l *lab) kind(name string) (steps.Kind, bool) {
	if name == l.lost {
		return steps.Kind{}, false
	}
	if k, ok := l.kinds[name]; ok {
		return k, true
	}
	return steps.Lookup(name)
}

// outcome is how a task ended. Crashed: its process ended before.
type outcome struct {
	result  *taskcatalog.OperationResult
	report  taskcatalog.Report
	err     error
	crashed bool
}

// run carries a plan out as a task. crash() within it ends the process.
func (l *lab) run(ctx context.Context, task string, p *taskcatalog.OperationPlan) outcome {
	o := &Operation{
		Plan: p, TaskID: task, Host: l.host, Journal: l.book, Kinds: l.kind,
		Progress: func(step string, index, total, percent int, message string) {
			l.said = append(l.said, step+" "+message)
		},
		Mint: func(_ context.Context, step, credentialType string) ([]byte, error) {
			return l.mint(step, credentialType)
		},
		Pause: func(ctx context.Context, d time.Duration) error { l.paused = append(l.paused, d); return ctx.Err() },
	}
	e, done := outcome{crashed: true}, make(chan struct{})
	go func() {
		defer close(done)
		result, report, err := o.Do(ctx)
		e = outcome{result: result, report: report, err: err}
	}()
	<-done
	return e
}

// crash ends the process: nothing after it runs but deferred functions, which write nothing.
func crash() { runtime.Goexit() }

// aPlan is a plan with the steps of a JSON list. A step has one attempt and ten minutes unless it says
// otherwise.
func aPlan(t testing.TB, steps string) *taskcatalog.OperationPlan {
	t.Helper()
	digest := "sha256:" + strings.Repeat("0", 64)
	p := &taskcatalog.OperationPlan{
		OperationID: "op-1", Attempt: 1, Operation: "a.test@v1", DefinitionDigest: digest, InputsDigest: digest, DeadlineSeconds: 3600,
		Artifacts: &taskcatalog.PlanArtifacts{Sources: []string{"s3:models", "oci:registry.example/tools"}, MaxBytes: 1 << 30},
	}
	if err := json.Unmarshal([]byte(steps), &p.Steps); err != nil {
		t.Fatalf("%s: %v", steps, err)
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		s.TimeoutSeconds, s.Attempts = max(s.TimeoutSeconds, 600), max(s.Attempts, 1)
	}
	return p
}

// story tells rows in one line each: "name attempt status code".
func story(e outcome) string {
	var all []string
	if e.result != nil {
		for _, r := range e.result.Steps {
			row := r.ID + " " + string(r.Status)
			if r.Earlier {
				row += " earlier"
			}
			if r.ErrorCode != "" {
				row += " " + string(r.ErrorCode)
			}
			all = append(all, row)
		}
	}
	return strings.Join(all, ", ")
}

// aFile is a step that renders a file.
const aFile = `{"id":"conf","kind":"file.render","attempts":2,"with":{"root":"/etc/demo","name":"a/b.conf","template":"port={{.port}}\n","values":{"port":8080},"mode":"0640"}}`

// gives is a kind that gives an output and cannot be looked at.
func gives(output string, called *int) steps.Kind {
	return steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		*called++
		return steps.Proof{Output: output}, nil
	}}
}
