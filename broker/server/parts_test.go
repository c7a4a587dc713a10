package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestPartsStopHoweverManyOfThemFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // parts that hang are a deadlock here
		work, end := context.WithCancel(t.Context())
		defer end()
		p := newParts(work)
		broken, begin := errors.New("broken"), make(chan struct{})
		for range 32 {
			p.start(func(context.Context) error { <-begin; return broken })
		}
		p.start(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if p.failed.Err() != nil {
			t.Fatalf("no part has returned yet: %v", context.Cause(p.failed))
		}
		close(begin)
		<-p.failed.Done()
		synctest.Wait() // every one of the 32 has failed before the work ends
		if err := context.Cause(p.failed); !errors.Is(err, broken) {
			t.Errorf("the cause is %v, want the error of a part", err)
		}
		if work.Err() != nil {
			t.Error("the failure of a part ended the work; the other parts are to drain first")
		}
		end()
		p.wait()
	})
}

func TestAPartThatEndsWithItsWorkHasNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work, end := context.WithCancelCause(t.Context())
		p := newParts(work)
		p.start(func(context.Context) error { return nil })
		p.start(func(ctx context.Context) error { <-ctx.Done(); return errors.New("closed") })
		synctest.Wait()
		if p.failed.Err() != nil {
			t.Errorf("a part that returns without an error failed: %v", context.Cause(p.failed))
		}
		stopped := errors.New("stopped")
		end(stopped)
		p.wait()
		if err := context.Cause(p.failed); !errors.Is(err, stopped) {
			t.Errorf("the cause is %v, want that of the work", err)
		}
	})
}
