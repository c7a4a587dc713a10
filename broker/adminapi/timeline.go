package adminapi

import (
	"cmp"
	"context"
	"slices"

	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/broker/store"
)

type timelineInput struct {
	NodeInput
	Limit int `query:"limit" minimum:"0" maximum:"1000"`
}

// timeline puts a node's audit rows and tasks into one list, newest first. A
// task is told twice: when it was issued and how it ended.
func (a *API) timeline(ctx context.Context, in *timelineInput) (*resource.Timeline, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	limit := pageLimit(in.Limit)
	rows, err := a.c.DB.ListAudit(ctx, store.AuditFilter{Subject: "node/" + n.ID, Newest: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	tasks, _, err := a.c.DB.ListTasks(ctx, store.TaskFilter{NodeID: n.ID, Limit: limit})
	if err != nil {
		return nil, err
	}
	out := &resource.Timeline{NodeID: n.ID, Items: []resource.TimelineEvent{}}
	for _, e := range rows {
		out.Items = append(out.Items, resource.TimelineEvent{
			At: e.At, Kind: "audit", What: e.Action, Actor: e.Actor, Code: e.Code, Detail: e.Reason,
		})
	}
	for _, t := range tasks {
		out.Items = append(out.Items, resource.TimelineEvent{
			At: t.IssuedAt, Kind: "task", What: "task.queued", Actor: t.EnqueuedBy, TaskID: t.ID, Type: t.Type,
		})
		if t.Status.Ended() {
			out.Items = append(out.Items, resource.TimelineEvent{
				At: t.EndedAt, Kind: "task", What: "task." + string(t.Status), TaskID: t.ID, Type: t.Type,
				Code: string(t.Code), Detail: cmp.Or(t.Message, string(t.Verdict)),
			})
		}
	}
	slices.SortStableFunc(out.Items, func(x, y resource.TimelineEvent) int { return y.At.Compare(x.At) })
	out.Items = out.Items[:min(len(out.Items), limit)]
	return out, nil
}
