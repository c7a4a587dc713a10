package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

// listArchives lists the archives kept of a node's diagnostics.
func (a *API) listArchives(ctx context.Context, in *nodePageInput) (*api.ArchiveList, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	all, err := a.c.DB.Archives(ctx, n.ID)
	if err != nil {
		return nil, err
	}
	out := &api.ArchiveList{Items: make([]api.Archive, len(all))}
	for i, k := range all {
		out.Items[i] = archiveResource(k)
	}
	return out, cut(in.PageInput, &out.Items, &out.Next, func(k api.Archive) string { return k.TaskID })
}

// showArchive returns the archive that a task collected. An archive shows the inside of a node, so
// each reader is recorded in the audit log.
func (a *API) showArchive(ctx context.Context, in *TaskInput) (*api.Archive, error) {
	t, _, err := a.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	k, err := a.c.DB.Archive(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	if err := a.c.DB.Audit(ctx, broker.AuditEntry{
		Actor: callerOf(ctx).actor().Name, Action: "archive.read", Subject: "task/" + t.ID, Reason: k.Digest,
		CorrelationID: callerOf(ctx).correlationID,
	}); err != nil {
		return nil, err
	}
	out := archiveResource(k)
	out.Archive = k.Data
	return &out, nil
}

func archiveResource(k store.Archive) api.Archive {
	return api.Archive{
		TaskID: k.TaskID, NodeID: k.NodeID, CorrelationID: k.CorrelationID, EnqueuedBy: k.EnqueuedBy, Digest: k.Digest,
		Bytes: k.Bytes, CollectedAt: k.At,
	}
}
