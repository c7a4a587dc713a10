package store

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// The actions in the audit log about recordings.
const (
	endAction    = "recording.end"
	dropAction   = "recording.drop"
	anchorAction = "recording.anchor"
	cutAction    = "recording.cut"
	brokenAction = "recording.broken"
	moveAction   = "terminal.move"
)

// toldActions are the actions whose rows describe a recording. A session has many more rows, about
// tickets and readers.
var toldActions = []string{
	endAction, dropAction, anchorAction, cutAction, moveAction, statusAction(broker.TerminalOpening), statusAction(broker.TerminalOpen),
	statusAction(broker.TerminalDetached), statusAction(broker.TerminalClosing), statusAction(broker.TerminalClosed),
}

func statusAction(s broker.TerminalStatus) string { return "terminal." + string(s) }

// toldAtOnce bounds a page of the audit log.
const toldAtOnce = 500

// recordingTold returns the audit log's statements about a recording, and how many of its heads
// were logged before the last cut was found. The session's row does not count: whoever can delete
// blocks can write to that row.
func (db *DB) recordingTold(ctx context.Context, sessionID string) (told recording.Told, before int, err error) {
	for after := int64(0); ; {
		var w sqlkit.Where
		w.Equal("subject", "terminal/"+sessionID)
		sqlkit.In(&w, "action", toldActions)
		w.Add("id > ?", after)
		page, err := sqlkit.Collect(ctx, db.reader(), scanAudit,
			`SELECT `+auditColumns+` FROM audit_logs`+w.String()+` ORDER BY id`+w.Limit(toldAtOnce), w.Args...)
		if err != nil {
			return told, 0, err
		}
		for _, row := range page {
			after = row.ID
			if row.Action == cutAction {
				before = len(told.Heads)
			}
			if err := hear(&told, row); err != nil {
				return told, 0, fmt.Errorf("row %d of the audit log, %s of terminal session %s: %w", row.ID, row.Action, sessionID, err)
			}
		}
		if len(page) < toldAtOnce {
			return told, before, nil
		}
	}
}

// hear adds an audit row to told. Of ends and of drops the first counts.
func hear(told *recording.Told, row SealedEntry) (err error) {
	switch {
	case row.Action == dropAction && told.Dropped.IsZero():
		told.Dropped = row.At
	case len(row.After) == 0: // a refusal
	case row.Action == endAction && told.End == nil:
		told.End = new(recording.Head)
		err = json.Unmarshal(row.After, told.End)
	case row.Action == endAction:
	case row.Action == cutAction:
		var cut recording.Cut
		err = json.Unmarshal(row.After, &cut)
		told.Cuts = append(told.Cuts, cut)
	default:
		var moved struct{ Recording *recording.Head }
		if err = json.Unmarshal(row.After, &moved); moved.Recording != nil {
			told.Heads = append(told.Heads, *moved.Recording)
		}
		told.Closed = told.Closed || row.Action == statusAction(broker.TerminalClosed)
	}
	return err
}

// VerifyRecording reads all of a recording and compares it with the audit log. A dropped recording
// can be verified too: the log has its end and its drop. Codes: terminal_session_not_found.
func (db *DB) VerifyRecording(ctx context.Context, sessionID string) (r recording.Report, end *recording.Head, err error) {
	if _, err := db.TerminalSession(ctx, sessionID); err != nil {
		return r, nil, err
	}
	return db.verify(ctx, sessionID, db.blocks(ctx, sessionID))
}

// verify reads the blocks again if the end of the recording, the end of its session, or its drop was
// logged while the blocks were read. Each of the three is logged at most once.
func (db *DB) verify(
	ctx context.Context, sessionID string, blocks iter.Seq2[recording.Block, error],
) (r recording.Report, end *recording.Head, err error) {
	told, _, err := db.recordingTold(ctx, sessionID)
	for err == nil {
		if r, err = recording.Verify(sessionID, blocks, told); err != nil {
			break
		}
		had := told
		told, _, err = db.recordingTold(ctx, sessionID)
		if (had.End == nil) == (told.End == nil) && had.Closed == told.Closed && had.Dropped.Equal(told.Dropped) {
			break
		}
	}
	return r, told.End, err
}

// AnchorRecording writes the present head of a recording into the audit log. The caller is the
// relay that holds the session and knows its own blocks, or, with an empty replica, a relay that
// held the session and knows the head of that time. Codes: terminal_session_not_found,
// terminal_session_elsewhere.
func (db *DB) AnchorRecording(ctx context.Context, actor broker.Actor, replica string, h recording.Head) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := terminal(ctx, t, h.SessionID, t.ForUpdate())
		if err != nil {
			return err
		}
		if replica != "" && s.Replica != replica {
			return terminalElsewhere(s)
		}
		e := terminalEntry(actor, anchorAction, s)
		e.After = small("recording", h)
		return t.audit(ctx, e)
	})
}

// RecordingCut returns the part missing from a recording that is about to continue, compared with
// the heads in the audit log since the last cut; nil: nothing is missing.
func (db *DB) RecordingCut(ctx context.Context, sessionID string) (*recording.Cut, error) {
	told, before, err := db.recordingTold(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	var cut recording.Cut
	for _, h := range told.Heads[before:] {
		there := h.Blocks <= cut.Told.Blocks
		if !there {
			if err := db.reader().QueryRowContext(ctx,
				`SELECT EXISTS (SELECT 1 FROM recording_blocks WHERE session_id = $1 AND seq = $2 AND hash = $3)`,
				sessionID, h.Blocks-1, h.Hash).Scan(&there); err != nil {
				return nil, err
			}
		}
		if !there {
			cut.Told = h
		}
	}
	if cut.Told.Blocks == 0 {
		return nil, nil
	}
	last, err := head(ctx, db.reader(), sessionID)
	cut.Left = recording.HeadOf(last)
	return &cut, err
}

// NoteRecordingCut writes a found cut into the audit log, and announces it. From then on
// RecordingCut does not return the cut again; VerifyRecording still reports it.
func (db *DB) NoteRecordingCut(ctx context.Context, actor broker.Actor, c recording.Cut) error {
	e := terminalEntry(actor, cutAction, broker.TerminalSession{ID: c.Told.SessionID})
	e.Code, e.Reason, e.After = "recording_cut", fmt.Sprintf("%d blocks were stored, and %d of them are left", c.Told.Blocks,
		c.Left.Blocks), json.RawMessage(sqlkit.JSON(c))
	return db.noteBroken(ctx, e, c.Told.SessionID)
}
