package adminapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/hostler/hostler/broker/audit"
)

// A viewer may ask as often as they like, and the log is long.
func TestTheAuditLogIsWalkedOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		walks, goOn := 0, make(chan struct{})
		w := &auditWalk{leaving: make(chan struct{}), verify: func(ctx context.Context) (audit.Report, error) {
			walks++
			select {
			case <-goOn:
				return audit.Report{Sealed: int64(walks)}, nil
			case <-ctx.Done():
				return audit.Report{}, ctx.Err()
			}
		}}
		first, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := w.report(first)
			left <- err
		}()
		synctest.Wait()
		answers := make(chan audit.Report, 3)
		for range 3 {
			go func() {
				r, err := w.report(t.Context())
				if err != nil {
					t.Error(err)
				}
				answers <- r
			}()
		}
		synctest.Wait()
		leave() // the caller that began the walk does not end it for the others
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("whoever left waits for the walk: %v", err)
		}
		goOn <- struct{}{}
		for range 3 {
			if r := <-answers; r.Sealed != 1 {
				t.Errorf("the answer of walk %d, want that of the first", r.Sealed)
			}
		}
		close(goOn)
		if r, err := w.report(t.Context()); err != nil || r.Sealed != 2 || walks != 2 {
			t.Errorf("after it: walk %d of %d, %v; want a new one", r.Sealed, walks, err)
		}
	})
}

func TestAStoppingBrokerEndsTheWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaving := make(chan struct{})
		w := &auditWalk{leaving: leaving, verify: func(ctx context.Context) (audit.Report, error) {
			<-ctx.Done()
			return audit.Report{}, ctx.Err()
		}}
		close(leaving)
		if _, err := w.report(t.Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}
