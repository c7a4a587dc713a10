package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

const blockColumns = `session_id, seq, at, upto, lost, last, lines, prev, hash`

func scanBlock(row sqlkit.Row) (b recording.Block, err error) {
	var to, lost int64
	err = row.Scan(&b.SessionID, &b.Seq, sqlkit.ScanMicros(&b.At), &to, &lost, &b.Last, &b.Lines, &b.Prev, &b.Hash)
	b.To, b.Lost = uint64(to), uint64(lost)
	return b, err
}

// keeper keeps the recordings of the sessions of a single relay.
type keeper struct {
	db      *DB
	replica string
}

// RecordingKeeper returns the keeper for the relay at an address: it stores blocks only of sessions
// held by this relay.
func (db *DB) RecordingKeeper(replica string) recording.Keeper { return keeper{db, replica} }

// Keep implements recording.Keeper. Codes: terminal_session_not_found, terminal_session_elsewhere,
// recording_conflict (the block is not the next block: another relay has continued the recording,
// or the recording has ended).
func (k keeper) Keep(ctx context.Context, b recording.Block) error {
	return k.db.write(ctx, func(ctx context.Context, t *tx) error {
		// The lock on the session's row serializes writers of the recording.
		s, err := terminal(ctx, t, b.SessionID, t.ForUpdate())
		if err != nil {
			return err
		}
		last, err := head(ctx, t, b.SessionID)
		switch {
		case err != nil:
			return err
		case b.Seq == last.Seq && b.Hash == last.Hash:
			return nil // the earlier answer was lost
		case s.Replica != k.replica:
			return terminalElsewhere(s)
		case b.Seq != last.Seq+1 || b.Prev != last.Hash || last.Last:
			return broker.Errorf(broker.Refused, "recording_conflict",
				"cannot store block %d of the recording of session %s: it does not follow block %d, the last block stored", b.Seq,
				b.SessionID, last.Seq)
		}
		_, err = t.ExecContext(ctx, `INSERT INTO recording_blocks (`+blockColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			b.SessionID, b.Seq, sqlkit.Micros(b.At), int64(b.To), int64(b.Lost), b.Last, b.Lines, b.Prev, b.Hash)
		return err
	})
}

// LastBlock returns the last block of a recording; Seq is -1 if the recording has no block.
func (db *DB) LastBlock(ctx context.Context, sessionID string) (recording.Block, error) {
	return lastBlock(ctx, db.reader(), sessionID)
}

func lastBlock(ctx context.Context, r sqlkit.Runner, sessionID string) (recording.Block, error) {
	return blockAtEnd(ctx, r, blockColumns, sessionID)
}

// head is lastBlock without the lines, which may be many.
func head(ctx context.Context, r sqlkit.Runner, sessionID string) (recording.Block, error) {
	return blockAtEnd(ctx, r, strings.Replace(blockColumns, "lines", "NULL", 1), sessionID)
}

func blockAtEnd(ctx context.Context, r sqlkit.Runner, columns, sessionID string) (recording.Block, error) {
	b, err := scanBlock(r.QueryRowContext(ctx, `SELECT `+columns+` FROM recording_blocks WHERE session_id = $1 ORDER BY seq DESC LIMIT 1`,
		sessionID))
	if errors.Is(err, sql.ErrNoRows) {
		return recording.Block{SessionID: sessionID, Seq: -1}, nil
	}
	return b, err
}

// blocksAtOnce bounds the blocks held in memory, and how long a statement is open.
const blocksAtOnce = 16

// Blocks iterates over a recording's blocks in order. Codes: recording_broken, if a block is
// missing.
func (db *DB) Blocks(ctx context.Context, sessionID string) iter.Seq2[recording.Block, error] {
	return func(yield func(recording.Block, error) bool) {
		next := int64(0)
		for b, err := range db.blocks(ctx, sessionID) {
			if err == nil && b.Seq != next {
				err = broker.Errorf(broker.Refused, "recording_broken",
					"cannot read the recording of session %s: block %d is missing (see hostler recording verify %s)", sessionID, next,
					sessionID)
			}
			if next++; !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// blocks iterates over the existing blocks.
func (db *DB) blocks(ctx context.Context, sessionID string) iter.Seq2[recording.Block, error] {
	return func(yield func(recording.Block, error) bool) {
		for after := int64(-1); ; {
			page, err := sqlkit.Collect(ctx, db.reader(), scanBlock, `SELECT `+blockColumns+` FROM recording_blocks
				WHERE session_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`, sessionID, after, blocksAtOnce)
			if err != nil {
				yield(recording.Block{}, err)
				return
			}
			for _, b := range page {
				if after = b.Seq; !yield(b, nil) {
					return
				}
			}
			if len(page) < blocksAtOnce {
				return
			}
		}
	}
}

// CloseRecording writes the head of a recording into the audit log, once, for the relay that holds
// the session. Codes: terminal_session_not_found, terminal_session_elsewhere, recording_head_wrong.
func (db *DB) CloseRecording(ctx context.Context, actor broker.Actor, replica string, h recording.Head) error {
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		s, err := terminal(ctx, t, h.SessionID, t.ForUpdate())
		if err != nil {
			return err
		}
		if s.Replica != replica {
			return terminalElsewhere(s)
		}
		last, err := head(ctx, t, s.ID)
		if err != nil {
			return err
		}
		if !last.Last || last.Hash != h.Hash || last.Seq+1 != h.Blocks || last.To != h.Bytes {
			return broker.Errorf(broker.Refused, "recording_head_wrong",
				"cannot close the recording of session %s: its last stored block is %d, %s, which is not the reported end", s.ID, last.Seq,
				last.Hash)
		}
		n, err := sqlkit.Changed(t.ExecContext(ctx, `UPDATE terminal_sessions SET recorded_at = $2 WHERE id = $1 AND recorded_at = 0`, s.ID,
			sqlkit.Micros(t.now)))
		if err != nil || n == 0 {
			return err
		}
		e := terminalEntry(actor, endAction, s)
		e.After = json.RawMessage(sqlkit.JSON(h))
		return t.audit(ctx, e)
	})
}

// Recording is a session with the state of its recording.
type Recording struct {
	broker.TerminalSession
	Blocks     int64
	Bytes      uint64 // of output
	Lost       uint64
	RecordedAt time.Time // when its end was written to the audit log; zero: not yet
	DroppedAt  time.Time // zero: not dropped
}

// RecordingFilter selects recordings; an empty field adds no condition.
type RecordingFilter struct {
	NodeID   string
	Sites    []string
	OpenedBy string
	From, To time.Time // creation of the session; To is exclusive
	After    string    // id of the previous page's last recording
	Limit    int       // 0: 100
}

// Recordings returns a page, newest first; the id of the last recording is the cursor of the next
// page.
func (db *DB) Recordings(ctx context.Context, f RecordingFilter) ([]Recording, error) {
	var w sqlkit.Where
	w.Equal("node_id", f.NodeID)
	sqlkit.In(&w, "site", f.Sites)
	w.Equal("opened_by", f.OpenedBy)
	if !f.From.IsZero() {
		w.Add("created_at >= ?", sqlkit.Micros(f.From))
	}
	if !f.To.IsZero() {
		w.Add("created_at < ?", sqlkit.Micros(f.To))
	}
	if f.After != "" {
		w.Add("(created_at, id) < (SELECT created_at, id FROM terminal_sessions WHERE id = ?)", f.After)
	}
	page := `SELECT ` + terminalColumns + `, recorded_at, dropped_at FROM terminal_sessions` + w.String() +
		` ORDER BY created_at DESC, id DESC` + w.Limit(cmp.Or(f.Limit, 100))
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (r Recording, err error) {
		var seq, to, lost int64
		r.TerminalSession, err = scanTerminal(also{
			also{also{also{also{row, &lost}, &to}, &seq}, sqlkit.ScanMicros(&r.DroppedAt)},
			sqlkit.ScanMicros(&r.RecordedAt),
		})
		r.Blocks, r.Bytes, r.Lost = seq+1, uint64(to), uint64(lost)
		return r, err
	}, `SELECT s.*, COALESCE(b.seq, -1), COALESCE(b.upto, 0), COALESCE(b.lost, 0) FROM (`+page+`) s
		LEFT JOIN recording_blocks b ON b.session_id = s.id AND b.seq = (SELECT MAX(seq) FROM recording_blocks WHERE session_id = s.id)
		ORDER BY s.created_at DESC, s.id DESC`, w.Args...)
}

// dropAtOnce bounds the recordings of one transaction.
const dropAtOnce = 20

// DropRecordings deletes the recordings of sessions that were closed before their site's time, each
// audited, and returns the sessions' ids. A call deletes a few recordings: repeat until no id is
// returned. A site without a time keeps its recordings. The audit log's rows about the recordings
// stay. A recording whose end the audit log does not have is never dropped.
func (db *DB) DropRecordings(ctx context.Context, actor broker.Actor, before map[string]time.Time) (dropped []string, err error) {
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		dropped = nil
		for _, site := range slices.Sorted(maps.Keys(before)) {
			old, err := sqlkit.Collect(ctx, t, scanText,
				`SELECT id FROM terminal_sessions WHERE site = $1 AND status = 'closed' AND closed_at > 0 AND closed_at < $2
				AND recorded_at > 0 AND dropped_at = 0 ORDER BY closed_at LIMIT $3`+t.ForUpdate()+
					t.SkipLocked(), site, sqlkit.Micros(before[site]), dropAtOnce-len(dropped))
			if err != nil {
				return err
			}
			for _, id := range old {
				if err := t.dropRecording(ctx, actor, id); err != nil {
					return err
				}
			}
			dropped = append(dropped, old...)
		}
		return nil
	})
	return dropped, err
}

func (t *tx) dropRecording(ctx context.Context, actor broker.Actor, id string) error {
	last, err := head(ctx, t, id)
	if err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, `DELETE FROM recording_blocks WHERE session_id = $1`, id); err != nil {
		return err
	}
	if _, err := t.ExecContext(ctx, `UPDATE terminal_sessions SET dropped_at = $2 WHERE id = $1`, id, sqlkit.Micros(t.now)); err != nil {
		return err
	}
	e := terminalEntry(actor, dropAction, broker.TerminalSession{ID: id})
	e.Reason = "older than the site keeps recordings"
	e.Before = small("blocks", last.Seq+1, "bytes", last.To, "hash", last.Hash)
	return t.audit(ctx, e)
}

// RecordingDropped returns when a session's recording was dropped; zero: not dropped. Codes:
// terminal_session_not_found.
func (db *DB) RecordingDropped(ctx context.Context, id string) (dropped time.Time, err error) {
	err = db.reader().QueryRowContext(ctx, `SELECT dropped_at FROM terminal_sessions WHERE id = $1`, id).Scan(sqlkit.ScanMicros(&dropped))
	if errors.Is(err, sql.ErrNoRows) {
		err = broker.TerminalNotFound(id)
	}
	return dropped, err
}
