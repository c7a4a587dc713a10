package adminapi

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
)

// DecommissionInput names a run.
type DecommissionInput struct {
	Decommission string `path:"decommission" maxLength:"64"`
}

func (a *API) showDecommission(ctx context.Context, in *DecommissionInput) (*api.DecommissionDetail, error) {
	r, err := a.run(ctx, turnoverKinds, in.Decommission)
	if err != nil {
		return nil, err
	}
	events, told, err := a.history(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	next, err := a.starts().Handover(ctx, r)
	if err != nil {
		return nil, err
	}
	return &api.DecommissionDetail{
		Decommission: decommissionResource(r), HandingOver: next.Due, FollowedBy: next.Run,
		Stages: a.stages(r, events), Events: told,
	}, nil
}

type decommissionsInput struct {
	Node    string `query:"node_id" maxLength:"253" doc:"an id, a hostname or site/hostname"`
	Site    string `query:"site" maxLength:"63"`
	Mode    string `query:"mode" maxLength:"40"`
	Status  string `query:"status" maxLength:"200" doc:"one or more statuses, separated by commas; live: all that have not ended; failed: both failed statuses"`
	Stage   string `query:"stage" maxLength:"64"`
	Class   string `query:"class" maxLength:"64" doc:"failure class"`
	BatchID string `query:"batch_id" maxLength:"64"`
	Cursor  string `query:"cursor" maxLength:"64"`
	Limit   int    `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listDecommissions(ctx context.Context, in *decommissionsInput) (*api.DecommissionList, error) {
	f := chain.Filter{Site: in.Site, Batch: in.BatchID, Stage: in.Stage, Class: chain.Class(in.Class), After: in.Cursor}
	if in.Mode != "" {
		f.Kind = turnover.Mode(in.Mode).Kind()
	}
	var err error
	if f.Statuses, err = runStatuses(in.Status); err != nil {
		return nil, err
	}
	if _, err := visibleSites(callerOf(ctx), in.Site); err != nil {
		return nil, err
	}
	var node broker.Node
	if in.Node != "" {
		if node, err = a.node(ctx, in.Node); err != nil {
			return nil, err
		}
	}
	out := &api.DecommissionList{Items: []api.Decommission{}, Frozen: callerOf(ctx).frozen}
	if out.Batch, err = a.batchState(ctx, turnoverKinds, in.BatchID); err != nil {
		return nil, err
	}
	var page []chain.Record
	if node.ID != "" {
		page, out.Next, err = a.runsOfNode(ctx, turnoverKinds, node.ID, f, pageLimit(in.Limit))
	} else {
		page, out.Next, err = a.runsOf(ctx, turnoverKinds, f, nil, pageLimit(in.Limit))
	}
	if err != nil {
		return nil, err
	}
	for _, r := range page {
		out.Items = append(out.Items, decommissionResource(r))
	}
	return out, nil
}

// nodeOf is the node of a run; empty: it has none, or none yet.
func nodeOf(r chain.Record) string {
	var s struct {
		NodeID string `json:"node_id"`
	}
	_ = json.Unmarshal(r.State, &s) // a state of another version yields no node
	return s.NodeID
}

type decommissionActionInput struct {
	DecommissionInput
	Action string `path:"action" enum:"retry,resume,rerun,restart-clean,cancel,adopt,mark-manual-intervention"`
	Body   api.RunOrder
}

func (a *API) actOnDecommission(ctx context.Context, in *decommissionActionInput) (*api.Decommission, error) {
	r, err := a.actOn(ctx, turnoverKinds, in.Decommission, in.Action, in.Body)
	if err != nil {
		return nil, err
	}
	out := decommissionResource(r)
	return &out, nil
}

// retryDecommissions retries the failed runs of a batch, and lets a stopped batch begin runs again.
func (a *API) retryDecommissions(ctx context.Context, in *retryBatchInput) (*api.DecommissionBatchRetried, error) {
	did, err := a.retryFailed(ctx, turnoverKinds, in.Batch, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	out := &api.DecommissionBatchRetried{BatchID: did.batch.ID, Continued: did.continued, Retried: []api.Decommission{}}
	for _, r := range did.runs {
		out.Retried = append(out.Retried, decommissionResource(r))
	}
	for _, no := range did.refused {
		out.Refused = append(out.Refused, api.DecommissionRefusal{DecommissionID: no.id, Code: no.code, Detail: no.detail})
	}
	return out, nil
}

// decommissionResource is the read model of a run.
func decommissionResource(r chain.Record) api.Decommission {
	var s turnover.Turnover
	_ = json.Unmarshal(r.State, &s) // a state of another version: the fields common to all runs are still shown
	out := api.Decommission{
		DecommissionID: r.ID, NodeID: s.NodeID, Hostname: r.Subject, Site: siteOf(r.Site), BatchID: r.Batch,
		Mode: strings.TrimPrefix(r.Kind, turnover.KindPrefix+"/"), StorageCleanup: s.StorageCleanup, Erase: s.Erase,
		ModeBecause: s.ModeBecause, Image: s.Image,
		ForceRelease: s.ForceRelease, Reason: s.Reason, RequestedBy: r.RequestedBy, Follows: s.Follows,
		RunState: stateOf(r), RunTimes: timesOf(r),
		CertificateID: s.Issued, MeetsPolicy: s.MeetsPolicy, Shortfalls: s.Shortfalls, Warnings: s.Warnings,
	}
	for _, d := range s.Tasks {
		out.Tasks = append(out.Tasks, d.ID)
	}
	return out
}
