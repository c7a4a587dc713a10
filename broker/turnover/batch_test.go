package turnover_test

import (
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
)

// A repeated failure on the first nodes of a batch stops the batch, and the batch continues after
// the repair.
func TestABatchOfTurnoversStopsAfterFailuresInARow(t *testing.T) {
	w := newWorld(t)
	w.policy.DrainTimeoutSeconds = 60
	var nodes []string
	var starts []chain.Start
	for i := range 4 {
		id := "n-abcdefghijklmno" + string(rune('a'+i))
		w.book.Add(id, 1)
		w.book.Change(id, func(m *turnovertest.Machine) { m.Silent = true })
		s, locks, err := turnover.New(w.book.Machine(id).Node, turnover.Place{Policy: w.policy}, turnover.Request{Mode: turnover.SoftReset, Reason: "the project ended"})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, id)
		starts = append(starts, chain.Start{ID: fmt.Sprintf("r-%d", i), Kind: turnover.SoftReset.Kind(), Site: "dc1", Subject: s.Hostname, State: s, Locks: locks, RequestedBy: "ada"})
	}
	if _, err := w.engine.StartBatch(ctx, chain.Batch{ID: "b-1", Kind: turnover.SoftReset.Kind(), Site: "dc1", Parallel: 1, StopAfter: 2}, starts); err != nil {
		t.Fatal(err)
	}
	w.settle("r-0")
	count := func() (in map[broker.NodeStatus]int) {
		in = map[broker.NodeStatus]int{}
		for _, id := range nodes {
			in[w.book.Machine(id).Status]++
		}
		return in
	}
	b, err := w.store.Batch(ctx, "b-1")
	if in := count(); err != nil || b.StoppedAt.IsZero() || b.LastStage != "drain_node" || in[broker.Draining] != 2 || in[broker.Active] != 2 {
		t.Fatalf("%+v, %v; nodes %v", b, err, in)
	}
	told := w.store.Outbox()
	if last := told[len(told)-1]; last.Type != "node.decommission.batch_stopped" || last.Subject != "batch/b-1" {
		t.Errorf("told %+v", last)
	}

	for _, id := range nodes {
		w.book.Change(id, func(m *turnovertest.Machine) { m.Silent = false })
	}
	if err := w.engine.ContinueBatch(ctx, chain.Order{ID: "b-1", Actor: ada, Reason: "the switch is mended"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range starts {
		if r := w.run(s.ID); r.Status.Stopped() {
			w.act(s.ID, chain.RetryStage)
		}
	}
	for _, s := range starts {
		if r := w.settle(s.ID); r.Status != chain.Completed {
			t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
	}
}
