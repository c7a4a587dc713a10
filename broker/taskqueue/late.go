package taskqueue

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// probesAtOnce bounds how many tasks one sweep probes.
const probesAtOnce = 100

// storeLate stores a node's result for a task that the broker has given up. An unreadable or badly
// signed result is dropped. The node still gets the recorded end as the answer, so that it can
// stop sending.
func (q *Queue) storeLate(ctx context.Context, k broker.Task, p Peer, r wire.ResultRequest) error {
	if k.Code != taskcatalog.CodeOutcomeUnknown || k.NodeEpoch != p.Epoch || k.Late != nil && !k.Late.Probe {
		return nil
	}
	out, _, err := judge(k, p, r)
	if err != nil {
		return nil
	}
	return q.c.DB.NoteLateResult(ctx, out)
}

// lateEffects is a probe's finding about its task.
func lateEffects(k broker.Task, v *taskcatalog.TaskProbeResult) ([]broker.Effect, error) {
	var asked taskcatalog.TaskProbeParams
	if err := json.Unmarshal(k.Params, &asked); err != nil {
		return nil, err
	}
	w := broker.LateWord{Probe: true, Running: v.Running, Message: taskcatalog.Clean(v.Found, taskcatalog.MaxText)}
	if v.Outcome.Valid() {
		w.Outcome = v.Outcome
	}
	if codePattern.MatchString(string(v.Code)) {
		w.Code = v.Code
	}
	if !v.Known {
		w.Message = "the node has no record of the task"
	}
	return []broker.Effect{broker.NoteLate{TaskID: asked.TaskID, Word: w}}, nil
}

// ProbeUnknown asks the nodes that are heard again about their tasks that ended outcome_unknown:
// each task once, and none for longer than store.ProbeWithin. The leader calls it beside Sweep. A
// node that cannot be asked is skipped: each sweep continues behind the tasks of the previous
// sweep, so that they delay no others, and starts over after the last.
func (q *Queue) ProbeUnknown(ctx context.Context) error { return q.probeUnknown(ctx, probesAtOnce) }

func (q *Queue) probeUnknown(ctx context.Context, atOnce int) error {
	open, err := q.c.DB.Unheard(ctx, q.probed, atOnce)
	if err != nil {
		return err
	}
	q.probed = broker.Task{}
	if len(open) == atOnce {
		q.probed = open[atOnce-1]
	}
	for _, k := range open {
		params, err := taskcatalog.Encode(taskcatalog.TaskProbeParams{TaskID: k.ID})
		if err != nil {
			return err
		}
		_, _, err = q.Enqueue(ctx, broker.Actor{Name: bySystem}, Request{
			NodeID: k.NodeID, Type: "node.task_probe", Params: params, CorrelationID: probesOf(k.ID),
			IdempotencyKey: broker.ProbeKey + k.ID,
		})
		if kind := broker.AsError(err).Kind; err != nil && (kind == broker.Internal || kind == broker.Unavailable) {
			return err
		}
	}
	return nil
}
