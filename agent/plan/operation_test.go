package plan

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

func TestStepsRunInTheirOrderAndGiveWhatLaterOnesBind(t *testing.T) {
	l := newLab(t)
	needsRoot(t)
	p := aPlan(t, `[`+aFile+`,{"id":"list","kind":"file.render","with":{"root":"/etc/demo","name":"list","template":"{{.file}}","values":{"file":{"from":"steps.conf"}}}},
		{"id":"run","kind":"service.control","with":{"unit":"demo.service","action":"restart"}}]`)
	e := l.run(t.Context(), "t-1", p)
	if e.err != nil || story(e) != "conf succeeded, list succeeded, run succeeded" {
		t.Fatal(story(e), e.err)
	}
	if got := hosttest.Read(t, l.dir, "etc/demo/a/b.conf"); got != "port=8080\n" {
		t.Errorf("the file has %q", got)
	}
	if got := hosttest.Read(t, l.dir, "etc/demo/list"); got != "/etc/demo/a/b.conf" {
		t.Errorf("the output of the first step is %q", got)
	}
	if !slices.Contains(l.systemd.Asked, "restart demo.service") {
		t.Errorf("systemd was asked %q", l.systemd.Asked)
	}
	if r := e.result; r.OperationID != p.OperationID || r.Operation != p.Operation || r.DefinitionDigest != p.DefinitionDigest || r.InputsDigest != p.InputsDigest {
		t.Errorf("the node would sign the result of another plan: %+v", r)
	}
	row := e.result.Steps[0]
	if row.Output != "/etc/demo/a/b.conf" || row.Bytes != 10 || !strings.HasPrefix(row.Digest, "sha256:") || row.AttemptNumber != 1 || row.StepKind != "file.render" {
		t.Errorf("%+v", row)
	}
}

// needsRoot skips where files cannot be given to root.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a file of root's needs root")
	}
}

// What an interrupted step would leave lies there, and nothing proves that the step had ended well.
func TestASideEffectThatNothingProvesIsMadeAgain(t *testing.T) {
	l := newLab(t)
	done := 0
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		done++
		hosttest.Put(t, l.dir, "effect", "there")
		if done == 1 {
			crash()
		}
		return steps.Proof{}, nil
	}}
	p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":2}]`)
	if first := l.run(t.Context(), "t-1", p); !first.crashed {
		t.Fatal(first.err)
	}
	if _, err := os.Stat(filepath.Join(l.dir, "effect")); err != nil {
		t.Fatal(err)
	}
	e := l.run(t.Context(), "t-1", p)
	if e.err != nil || done != 2 || story(e) != "one failed step_interrupted, one succeeded" {
		t.Errorf("done %d times: %s, %v", done, story(e), e.err)
	}
}

func TestAttemptsThatAreUsedUpEndInFailedAndNoLaterStepRuns(t *testing.T) {
	l := newLab(t)
	tried, later := 0, 0
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		tried++
		return steps.Proof{}, taskcatalog.Errorf("driver_gone", "the driver is gone")
	}}
	l.kinds["gpu.driver.validate"] = gives("", &later)
	p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":4},{"id":"two","kind":"gpu.driver.validate"}]`)
	e := l.run(t.Context(), "t-1", p)
	if taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeStepFailed || tried != 4 || later != 0 ||
		story(e) != strings.TrimSuffix(strings.Repeat("one failed driver_gone, ", 4), ", ") {
		t.Errorf("%d tries, then %d: %s: %v", tried, later, story(e), e.err)
	}
	if want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}; !slices.Equal(l.paused, want) {
		t.Errorf("pauses %v, want %v", l.paused, want)
	}
	for i, r := range e.result.Steps {
		if r.AttemptNumber != i+1 {
			t.Errorf("row %d is attempt %d", i, r.AttemptNumber)
		}
	}
	// The process ends before the result is recorded, and the next has no attempt left.
	if again := l.run(t.Context(), "t-1", p); tried != 4 || taskcatalog.CodeOf(again.err, "") != taskcatalog.CodeStepFailed || story(again) != story(e) {
		t.Errorf("%d tries: %s", tried, story(again))
	}
}

func TestAFaultThatNoAttemptMendsEndsTheStepAtOnce(t *testing.T) {
	l := newLab(t)
	tried := 0
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		tried++
		return steps.Proof{}, taskcatalog.Errorf(taskcatalog.CodeDigestMismatch, "another content")
	}}
	e := l.run(t.Context(), "t-1", aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":9}]`))
	if tried != 1 || taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeDigestMismatch {
		t.Errorf("%d tries: %v", tried, e.err)
	}
}

func TestAPanicIsAFailedAttemptAndItsTextStaysOut(t *testing.T) {
	l := newLab(t)
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) { panic("a secret text") }}
	e := l.run(t.Context(), "t-1", aPlan(t, `[{"id":"one","kind":"gpu.runtime.check"}]`))
	if story(e) != "one failed handler_panicked" || strings.Contains(e.err.Error(), "secret") {
		t.Errorf("%s: %v", story(e), e.err)
	}
}

func TestALaterTaskRunsOnlyWhatIsNotDone(t *testing.T) {
	l := newLab(t)
	a, b, c, broken := 0, 0, 0, true
	l.kinds["gpu.runtime.check"] = gives("", &a)
	l.kinds["gpu.driver.validate"] = gives("", &b)
	l.kinds["gpu.fabric.verify"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		c++
		if broken {
			return steps.Proof{}, errors.New("broken")
		}
		return steps.Proof{}, nil
	}}
	p := aPlan(t, `[{"id":"once","kind":"gpu.runtime.check"},{"id":"always","kind":"gpu.driver.validate","rerun":true},{"id":"last","kind":"gpu.fabric.verify"}]`)
	l.run(t.Context(), "t-1", p)
	broken, p.Attempt = false, 2
	e := l.run(t.Context(), "t-2", p)
	if e.err != nil || story(e) != "once succeeded earlier, always succeeded, last succeeded" || a != 1 || b != 2 || c != 2 {
		t.Errorf("%s: %v; %d %d %d", story(e), e.err, a, b, c)
	}
	// The same task again has its own rows, and runs nothing.
	if e = l.run(t.Context(), "t-2", p); story(e) != "once succeeded earlier, always succeeded, last succeeded" || b != 2 {
		t.Errorf("%s; %d", story(e), b)
	}
}

func TestAStepWithOtherValuesIsAnotherStep(t *testing.T) {
	l := newLab(t)
	needsRoot(t)
	l.run(t.Context(), "t-1", aPlan(t, `[`+aFile+`]`))
	e := l.run(t.Context(), "t-2", aPlan(t, `[`+strings.Replace(aFile, "8080", "9090", 1)+`]`))
	if e.err != nil || story(e) != "conf succeeded" || hosttest.Read(t, l.dir, "etc/demo/a/b.conf") != "port=9090\n" {
		t.Errorf("%s: %v", story(e), e.err)
	}
}

func TestOnlyNothingToDoIsSkipped(t *testing.T) {
	l := newLab(t)
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
		return steps.Proof{Nothing: true, Profile: "builtin:none", Match: "none"}, nil
	}}
	e := l.run(t.Context(), "t-1", aPlan(t, `[{"id":"one","kind":"gpu.runtime.check"}]`))
	if r := e.result.Steps[0]; e.err != nil || r.Status != taskcatalog.StepSkipped || r.ResolvedProfile != "builtin:none" || r.HardwareMatch != "none" {
		t.Errorf("%+v: %v", r, e.err)
	}
}

func TestATimeoutIsAFailedAttempt(t *testing.T) {
	l := newLab(t)
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(ctx context.Context, _ *steps.Step) (steps.Proof, error) {
		<-ctx.Done()
		return steps.Proof{}, ctx.Err()
	}}
	p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":2}]`)
	synctest.Test(t, func(t *testing.T) {
		e := l.run(context.Background(), "t-1", p)
		if story(e) != "one failed step_timeout, one failed step_timeout" || taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeStepFailed {
			t.Errorf("%s: %v", story(e), e.err)
		}
	})
}

// An attempt that goes on past its time ends the process, and has used one attempt.
func TestAStepThatDoesNotStopEndsTheProcess(t *testing.T) {
	l := newLab(t)
	p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":2}]`)
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) {
			<-hang
			return steps.Proof{}, nil
		}}
		began := time.Now()
		if e := l.run(context.Background(), "t-1", p); !errors.Is(e.err, host.ErrStuck) {
			t.Errorf("%s: %v", story(e), e.err)
		}
		if took := time.Since(began); took > 11*time.Minute {
			t.Errorf("it took %s", took)
		}
		close(hang)
	})
	l.kinds["gpu.runtime.check"] = gives("", new(int))
	if e := l.run(t.Context(), "t-1", p); e.err != nil || story(e) != "one failed step_interrupted, one succeeded" {
		t.Errorf("%s: %v", story(e), e.err)
	}
}

// The agent that goes on may be an older version, which has less kinds. It tells what was done.
func TestAnAgentThatCannotGoOnTellsWhatWasDone(t *testing.T) {
	l := newLab(t)
	l.kinds["gpu.runtime.check"] = gives("", new(int))
	l.kinds["cluster.verify"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) { crash(); return steps.Proof{}, nil }}
	p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check"},{"id":"two","kind":"cluster.verify","with":{"cluster":"slurm","name":"x"}}]`)
	if e := l.run(t.Context(), "t-1", p); !e.crashed {
		t.Fatal(e.err)
	}
	l.lost = "cluster.verify"
	e := l.run(t.Context(), "t-1", p)
	if taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeStepUnsupported || story(e) != "one succeeded, two failed step_interrupted" {
		t.Errorf("%s: %v", story(e), e.err)
	}
}

var errCanceled = errors.New("canceled by the broker")

func TestTheEndOfATaskEndsItsStepAtOnce(t *testing.T) {
	for _, c := range []struct {
		cause error
		want  string
		err   error
	}{
		{errCanceled, "one canceled canceled", errCanceled},
		{host.ErrStopping, "", host.ErrUnfinished},
	} {
		l := newLab(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		later := 0
		l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(ctx context.Context, _ *steps.Step) (steps.Proof, error) {
			cancel(c.cause)
			<-ctx.Done()
			return steps.Proof{}, context.Cause(ctx)
		}}
		l.kinds["gpu.driver.validate"] = gives("", &later)
		p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":3},{"id":"two","kind":"gpu.driver.validate"}]`)
		e := l.run(ctx, "t-1", p)
		if !errors.Is(e.err, c.err) || later != 0 || c.want != "" && story(e) != c.want {
			t.Errorf("%v: %s, %v", c.cause, story(e), e.err)
		}
		if c.err != host.ErrUnfinished {
			continue
		}
		l.kinds["gpu.runtime.check"] = gives("", new(int))
		if e := l.run(t.Context(), "t-1", p); e.err != nil || story(e) != "one failed step_interrupted, one succeeded, two succeeded" {
			t.Errorf("the next process: %s, %v", story(e), e.err)
		}
	}
	l := newLab(t)
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(ctx context.Context, _ *steps.Step) (steps.Proof, error) {
		<-ctx.Done()
		return steps.Proof{}, ctx.Err()
	}}
	p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":3}]`)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if e := l.run(ctx, "t-1", p); story(e) != "one failed deadline_exceeded" || !errors.Is(e.err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", story(e), e.err)
		}
	})
}

// A journal that cannot be written keeps a step from beginning; a success that was not recorded is no
// success for the next task.
func TestAStepThatCannotBeRecordedDoesNotBegin(t *testing.T) {
	for n := range 2 {
		l := newLab(t)
		done, writes := 0, 0
		l.kinds["gpu.runtime.check"] = gives("", &done)
		l.book.put = func(after bool) error {
			if after {
				return nil
			}
			if writes++; writes == n+1 {
				return taskcatalog.Errorf(taskcatalog.CodeLedgerUnavailable, "the disk is full")
			}
			return nil
		}
		p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":3}]`)
		e := l.run(t.Context(), "t-1", p)
		if taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeLedgerUnavailable || done != n {
			t.Errorf("write %d: done %d times, %v", n, done, e.err)
		}
		if e = l.run(t.Context(), "t-2", p); e.err != nil || done != n+1 || story(e) != "one succeeded" {
			t.Errorf("write %d, the next task: %s, %v", n, story(e), e.err)
		}
	}
}

func TestACheckpointIsKeptOverProcessesAndTasksUntilTheStepIsDone(t *testing.T) {
	l := newLab(t)
	var seen []string
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(_ context.Context, s *steps.Step) (steps.Proof, error) {
		state, err := s.Checkpoint.Load()
		if err != nil {
			return steps.Proof{}, err
		}
		seen = append(seen, string(state))
		if err := s.Checkpoint.Save(append(state, 'x')); err != nil {
			return steps.Proof{}, err
		}
		switch len(state) {
		case 0:
			crash()
		case 1:
			return steps.Proof{}, errors.New("not yet")
		}
		return steps.Proof{}, nil
	}}
	p := aPlan(t, `[{"id":"one","kind":"gpu.runtime.check","attempts":2,"rerun":true}]`)
	for _, task := range []string{"t-1", "t-1", "t-2", "t-3"} {
		l.run(t.Context(), task, p)
	}
	if !slices.Equal(seen, []string{"", "x", "xx", ""}) {
		t.Errorf("the step saw %q", seen)
	}
}

func TestACheckpointIsBounded(t *testing.T) {
	l := newLab(t)
	l.kinds["gpu.runtime.check"] = steps.Kind{Do: func(_ context.Context, s *steps.Step) (steps.Proof, error) {
		return steps.Proof{}, s.Checkpoint.Save(make([]byte, maxCheckpoint+1))
	}}
	if e := l.run(t.Context(), "t-1", aPlan(t, `[{"id":"one","kind":"gpu.runtime.check"}]`)); story(e) != "one failed too_large" {
		t.Error(story(e))
	}
}
