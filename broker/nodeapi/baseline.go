package nodeapi

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
)

const (
	baselineTries = 5           // before a person must look
	baselineAgain = time.Minute // after the first failure; doubled after each further one
)

// requestBaseline asks a node that has just enrolled for its baseline; the answer makes the node
// active. A machine may reboot meanwhile, so a failed task is followed by another. The only memory
// of the tries is the tasks themselves, by their keys: every replica sees the same tries, and a
// restart changes nothing.
func (a *API) requestBaseline(ctx context.Context, p *pki.Peer) error {
	var last broker.Task
	for try := range baselineTries {
		key := fmt.Sprintf("enrolment-%d", p.Epoch)
		if try > 0 {
			key = fmt.Sprintf("%s-%d", key, try+1)
		}
		k, had, err := a.c.DB.TaskByKey(ctx, p.NodeID, key)
		switch {
		case err != nil:
			return err
		case !had && try > 0 && a.c.DB.Now().Before(last.EndedAt.Add(baselineAgain<<(try-1))):
			return nil
		case !had:
			_, _, err := a.c.Queue.Enqueue(ctx, broker.System, taskqueue.Request{
				NodeID: p.NodeID, Type: "node.validate_clean", Params: []byte(`{"take_baseline":true}`),
				IdempotencyKey: key, RetryOf: last.ID,
			})
			return err
		case !k.Status.Ended() || k.Status == broker.TaskSucceeded:
			return nil
		}
		last = k
	}
	_, err := a.c.DB.Transition(ctx, broker.System, p.NodeID, store.Change{
		From: broker.Enrolling, To: broker.Quarantined, By: broker.OwnerOnboarding,
		Reason: fmt.Sprintf("no baseline: %d tasks ended without one, the last is %s (%s; hostler task show %s shows why; then hostler node baseline retake %s, and hostler node activate %s)",
			baselineTries, last.ID, last.Status, last.ID, p.NodeID, p.NodeID),
	})
	return err
}
