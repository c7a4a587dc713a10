package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

type timelineInput struct {
	NodeInput
	Since  time.Time `query:"since" doc:"from this time on, oldest first; left out: the newest items, oldest first as well"`
	Cursor string    `query:"cursor" maxLength:"64"`
	Limit  int       `query:"limit" minimum:"0" maximum:"1000"`
}

// timeline returns the history of a node in one chronological list, oldest first.
func (a *API) timeline(ctx context.Context, in *timelineInput) (*api.Timeline, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	w := store.Window{Since: in.Since}
	switch {
	case in.Cursor != "" && !in.Since.IsZero():
		return nil, broker.Errorf(broker.Invalid, "cursor_invalid", "cannot use since and cursor together: the cursor contains the start")
	case in.Cursor != "":
		if w, err = store.WindowAt(in.Cursor); err != nil {
			return nil, err
		}
	}
	w.Limit = pageLimit(in.Limit)
	page, next, earlier, err := a.c.DB.Timeline(ctx, n.ID, w)
	if err != nil {
		return nil, err
	}
	out := &api.Timeline{NodeID: n.ID, Items: []api.TimelineEvent{}, Earlier: earlier}
	if next != nil {
		out.Next = next.Cursor()
	}
	for _, m := range page {
		out.Items = append(out.Items, momentResource(m, a.c.Now()))
	}
	return out, nil
}

// momentResource is the read model of a moment, as of now.
func momentResource(m store.Moment, now time.Time) api.TimelineEvent {
	e := api.TimelineEvent{
		At: m.At, EndedAt: m.Until, Kind: m.Kind, What: m.What, Status: m.Status, Actor: m.Actor, TaskID: m.TaskID, RunID: m.RunID,
		Code:   m.Code,
		Detail: taskcatalog.Clean(m.Detail, 500),
	}
	if !m.Until.IsZero() {
		e.TookSeconds = m.Until.Sub(m.At).Seconds()
	}
	switch m.Kind {
	case store.MomentState:
		e.Detail = moved(m)
	case store.MomentOutage:
		var lost struct {
			GPUs int64 `json:"gpus"`
		}
		_ = json.Unmarshal(m.After, &lost) // written by the broker
		hours := broker.Outage{BeganAt: m.At, EndedAt: m.Until}.Duration(time.Time{}, now).Hours()
		gpus := float64(lost.GPUs) * hours
		e.NodeHoursLost, e.GPUHoursLost = &hours, &gpus
		e.Detail = fmt.Sprintf("out of use: %.1f GPU-hours lost (GPUs: %d)", gpus, lost.GPUs)
	case store.MomentStage:
		var why struct {
			Class string `json:"failure_class"`
			Code  string `json:"error_code"`
		}
		_ = json.Unmarshal(m.After, &why) // a success has other details
		e.Code = cmp.Or(why.Code, why.Class)
	case store.MomentCertificate:
		var c struct {
			ID    string `json:"certificate"`
			Meets bool   `json:"meets_policy"`
			Part  string `json:"device"` // of an attestation
			Said  string `json:"said"`
		}
		if json.Unmarshal(m.After, &c) == nil && c.ID != "" {
			e.Detail = c.ID + " falls short of the policy"
			if c.Meets {
				e.Detail = c.ID + " meets the policy"
			}
		} else if c.Said != "" {
			e.Detail = c.Part + " was " + c.Said
		}
	}
	return e
}

// moved describes a change of status and its reason.
func moved(m store.Moment) string {
	type standing struct {
		Status string `json:"status"`
		Owed   bool   `json:"turnover_owed"`
	}
	var from, to standing
	if json.Unmarshal(m.Before, &from) != nil || json.Unmarshal(m.After, &to) != nil || m.Code != "" {
		return taskcatalog.Clean(m.Detail, 500) // the change was refused, so the status did not change
	}
	text := from.Status + " → " + to.Status
	if to.Owed && !from.Owed {
		text += ", a turnover is owed"
	}
	if m.Detail != "" {
		text += ": " + m.Detail
	}
	return taskcatalog.Clean(text, 500)
}
