package adminapi

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

type recordingsInput struct {
	Node     string    `query:"node" maxLength:"320"`
	OpenedBy string    `query:"opened_by" maxLength:"64"`
	From     time.Time `query:"from" doc:"earliest start of the session"`
	To       time.Time `query:"to" doc:"latest start of the session, exclusive"`
	Cursor   string    `query:"cursor" maxLength:"64"`
	Limit    int       `query:"limit" minimum:"0" maximum:"1000"`
}

func (a *API) listRecordings(ctx context.Context, in *recordingsInput) (*api.RecordingList, error) {
	f := store.RecordingFilter{
		Sites: callerOf(ctx).sites(), OpenedBy: in.OpenedBy, From: in.From, To: in.To, After: in.Cursor,
		Limit: pageLimit(in.Limit) + 1,
	}
	if in.Node != "" {
		n, err := a.node(ctx, in.Node)
		if err != nil {
			return nil, err
		}
		f.NodeID = n.ID
	}
	read, err := a.c.DB.Recordings(ctx, f)
	if err != nil {
		return nil, err
	}
	page, next := firstOf(read, pageLimit(in.Limit), func(r store.Recording) string { return r.ID })
	out := &api.RecordingList{Items: make([]api.Recording, len(page)), Next: next}
	for i, r := range page {
		n, err := a.c.DB.Node(ctx, r.NodeID)
		if err != nil {
			return nil, err
		}
		out.Items[i] = api.Recording{
			SessionID: r.ID, NodeID: r.NodeID, Hostname: n.Hostname, Site: r.Site, Username: r.Username, OpenedBy: r.OpenedBy,
			Reason: r.Reason, EndCode: r.EndCode,
			BeganAt: r.CreatedAt, EndedAt: r.ClosedAt, Bytes: r.Bytes, Lost: r.Lost, Blocks: r.Blocks, Ended: !r.RecordedAt.IsZero(),
			DroppedAt: r.DroppedAt,
		}
	}
	return out, nil
}

// RecordingInput names a session by its recording; exported for the same reason as NodeInput.
type RecordingInput struct {
	Recording string `path:"recording" maxLength:"64"`
}

// readRecording audits the reader of a session's recording before the recording is read.
func (a *API) readRecording(ctx context.Context, id, action string) (store.Terminal, error) {
	v, err := a.terminal(ctx, id)
	if err != nil {
		return v, err
	}
	return v, a.c.DB.Audit(ctx, broker.AuditEntry{
		Actor: callerOf(ctx).Name, Action: action, Subject: "terminal/" + v.ID, CorrelationID: callerOf(ctx).correlationID,
	})
}

// mayRead admits the operator that opened the session, and platform_admin. The output and input of
// a session are not for all operators of a site. Codes: terminal_session_not_found,
// recording_not_yours.
func (a *API) mayRead(ctx context.Context, id string) error {
	v, err := a.terminal(ctx, id)
	who := callerOf(ctx)
	if err != nil || v.OpenedBy == who.Name || who.Role.Covers(broker.RolePlatformAdmin) {
		return err
	}
	err = broker.Errorf(broker.Forbidden, "recording_not_yours",
		"cannot read the recording of session %s: %s opened it (ask a platform_admin)", v.ID, v.OpenedBy)
	a.auditRefusal(ctx, "get-recording", broker.AuditEntry{
		Actor: who.Name, Code: "recording_not_yours", Reason: "terminal/" + v.ID,
		CorrelationID: who.correlationID,
	})
	return err
}

// hasRecording returns the number of blocks of a recording, or refuses a recording that cannot be
// read. Codes: recording_dropped, recording_missing.
func (a *API) hasRecording(ctx context.Context, id string) (blocks int64, err error) {
	dropped, err := a.c.DB.RecordingDropped(ctx, id)
	switch {
	case err != nil:
		return 0, err
	case !dropped.IsZero():
		return 0, broker.Errorf(broker.Refused, "recording_dropped",
			"cannot read the recording of session %s: the recording was deleted on %s, at the end of its site's retention time (its entries in the audit log stay)", id, dropped.UTC().Format(time.RFC3339))
	}
	last, err := a.c.DB.LastBlock(ctx, id)
	if err == nil && last.Seq < 0 {
		err = broker.Errorf(broker.NotFound, "recording_missing",
			"cannot read the recording of session %s: there is none, because the session never began", id)
	}
	return last.Seq + 1, err
}

// castType is the media type that players of recordings know.
const castType = "application/x-asciicast; charset=utf-8"

// getCast streams a recording as it was written. If the recording cannot be read to its end, the
// stream is aborted, so that a part is not mistaken for the whole.
func (a *API) getCast(ctx context.Context, in *RecordingInput) (*huma.StreamResponse, error) {
	if err := a.mayRead(ctx, in.Recording); err != nil {
		return nil, err
	}
	v, err := a.readRecording(ctx, in.Recording, "recording.read")
	if err != nil {
		return nil, err
	}
	blocks, err := a.hasRecording(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", castType)
		_, w := humago.Unwrap(hc)
		read := int64(0)
		for b, err := range a.c.DB.Blocks(ctx, v.ID) {
			if err != nil {
				a.abortStream(err)
			}
			read++
			if _, err := w.Write(b.Lines); err != nil {
				return // the reader has left
			}
		}
		if read < blocks { // dropped meanwhile
			a.abortStream(broker.Errorf(broker.Refused, "recording_broken",
				"the recording of session %s now has %d blocks, and had %d when the broker began to read it", v.ID, read, blocks))
		}
	}}, nil
}

func (a *API) verifyRecording(ctx context.Context, in *RecordingInput) (*api.RecordingReport, error) {
	v, err := a.readRecording(ctx, in.Recording, "recording.verify")
	if err != nil {
		return nil, err
	}
	r, told, err := a.c.DB.VerifyRecording(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	out := &api.RecordingReport{
		SessionID: r.SessionID, Complete: r.Complete, Intact: r.Intact, Ended: r.Ended, Blocks: r.Blocks, Bytes: r.Bytes, Until: r.Until,
		Lost: r.Lost, What: r.What,
	}
	if told == nil {
		return out, nil
	}
	out.Head = &api.RecordingHead{Blocks: told.Blocks, Bytes: told.Bytes, Hash: told.Hash}
	rows, err := a.c.DB.ListAudit(ctx, store.AuditFilter{Subject: "terminal/" + v.ID, Action: "recording.end", Limit: 1})
	if len(rows) == 1 {
		out.Head.AuditID, out.Head.At = rows[0].ID, rows[0].At
	}
	return out, err
}
