package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// AvailabilityEvent announces that a node's availability has changed.
const AvailabilityEvent = "node.availability.changed"

// HintNode announces that a fact has changed that decides whether a node may be handed out. ID is
// the node; empty: several nodes.
const HintNode HintKind = "node"

// ConfirmedWithin is the time after which a node that nobody has judged again no longer counts as
// available. Any other word stands: it promises nothing.
const ConfirmedWithin = 3 * time.Minute

// lapsed is true of a record that says available, and that nobody has confirmed since a time, which
// the caller gives twice.
const lapsed = `word = 'available' AND node_availability.at < ? AND (SELECT at FROM availability_sweep WHERE one = 1) < ?`

// confirmedSince is the time of lapsed.
func (db *DB) confirmedSince() int64 { return sqlkit.Micros(db.Now().Add(-ConfirmedWithin)) }

// NodeAvailability is a node's availability on record.
type NodeAvailability struct {
	Word  broker.Availability
	Codes []string  // of the reasons against handing out; the first decided the word
	Since time.Time // the node has the word
	At    time.Time // when the node was last judged
}

// Availability returns the availability of nodes. A node that was not judged yet is unknown, and so is
// an available one that was not judged again within ConfirmedWithin.
func (db *DB) Availability(ctx context.Context, nodeIDs []string) (map[string]NodeAvailability, error) {
	out := make(map[string]NodeAvailability, len(nodeIDs))
	now := db.Now()
	for ids := range slices.Chunk(nodeIDs, 500) {
		for _, id := range ids {
			out[id] = NodeAvailability{Word: broker.AvailabilityUnknown}
		}
		var w sqlkit.Where
		sqlkit.In(&w, "node_id", ids)
		_, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (id string, err error) {
			var a NodeAvailability
			var swept time.Time
			err = row.Scan(&id, &a.Word, sqlkit.ScanJSON(&a.Codes), sqlkit.ScanMicros(&a.Since), sqlkit.ScanMicros(&a.At),
				sqlkit.ScanMicros(&swept))
			if swept.After(a.At) {
				a.At = swept
			}
			if lapses := a.At.Add(ConfirmedWithin); a.Word == broker.Available && lapses.Before(now) {
				a.Word, a.Since = broker.AvailabilityUnknown, lapses
			}
			out[id] = a
			return id, err
		}, `SELECT node_id, word, codes, since, a.at, s.at FROM node_availability a JOIN availability_sweep s ON s.one = 1`+w.String(), w.Args...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// inAvailability adds the condition that a node has one of the words.
func (db *DB) inAvailability(w *sqlkit.Where, words []broker.Availability) {
	if len(words) == 0 {
		return
	}
	known := sqlkit.Where{Args: w.Args}
	sqlkit.In(&known, "word", words)
	since := db.confirmedSince()
	known.Add("NOT ("+lapsed+")", since, since)
	term := "id IN (SELECT node_id FROM node_availability" + known.String() + ")"
	w.Args = known.Args
	if slices.Contains(words, broker.AvailabilityUnknown) {
		old := sqlkit.Where{Args: w.Args}
		old.Add(lapsed, since, since)
		term = "(" + term + " OR id IN (SELECT node_id FROM node_availability" + old.String() + ") OR id NOT IN (SELECT node_id FROM node_availability))"
		w.Args = old.Args
	}
	w.Add(term)
}

// SweepAvailability judges all nodes and records what has changed. Its queries do not grow in
// number with the fleet: nodes whose word stands are read, and not written.
func (db *DB) SweepAvailability(ctx context.Context) (changed int, err error) {
	now := db.Now()
	if changed, err = db.renewAvailability(ctx, nil); err != nil {
		return changed, err
	}
	return changed, db.write(ctx, func(ctx context.Context, t *tx) error {
		_, err := t.ExecContext(ctx, `UPDATE availability_sweep SET at = $1 WHERE one = 1`, sqlkit.Micros(now))
		return err
	})
}

// RenewAvailability judges some nodes and records what has changed.
func (db *DB) RenewAvailability(ctx context.Context, nodeIDs []string) (changed int, err error) {
	for ids := range slices.Chunk(nodeIDs, 500) {
		n, err := db.renewAvailability(ctx, ids)
		if changed += n; err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// renewBatch is how many changed nodes a transaction writes.
const renewBatch = 50

// renewAvailability finds the nodes (nil: all) whose record differs from the judgement, and judges
// each of these again in the transaction that writes.
func (db *DB) renewAvailability(ctx context.Context, nodeIDs []string) (changed int, err error) {
	fleet, err := handouts(ctx, db.reader(), nodesWith(nodeIDs), db.Now())
	if err != nil {
		return 0, err
	}
	slices.SortFunc(fleet, func(a, b judged) int { // as a placement locks nodes
		return cmp.Or(cmp.Compare(a.Node.Site, b.Node.Site), cmp.Compare(a.Node.ID, b.Node.ID))
	})
	if err := db.judgeStale(ctx, fleet); err != nil {
		return 0, err
	}
	var differ []string
	for _, f := range fleet {
		if word, codes := f.Availability(); word != f.word || sqlkit.JSON(codes) != f.codes {
			differ = append(differ, f.Node.ID)
		}
	}
	for ids := range slices.Chunk(differ, renewBatch) {
		n := 0
		err := db.write(ctx, func(ctx context.Context, t *tx) error {
			n = 0
			for _, id := range ids {
				moved, err := t.renewAvailability(ctx, id)
				if err != nil {
					return err
				}
				if moved {
					n++
				}
			}
			return nil
		})
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

// renewAvailability judges one node and records the result; moved reports another word.
func (t *tx) renewAvailability(ctx context.Context, nodeID string) (moved bool, err error) {
	n, err := node(ctx, t, nodeID, t.ForUpdate())
	if err != nil {
		return false, err
	}
	h, err := t.handoutKept(ctx, n)
	if err != nil {
		return false, err
	}
	var was broker.Availability
	var codesBefore string
	err = t.QueryRowContext(ctx, `SELECT word, codes FROM node_availability WHERE node_id = $1`, nodeID).Scan(&was, &codesBefore)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, err
	}
	word, codes := h.Availability()
	moved = word != was
	isNew := was == "" && word == broker.OutOfService // a new node is no news: its status was announced
	if !moved && sqlkit.JSON(codes) == codesBefore {
		return false, nil
	}
	if _, err := t.ExecContext(ctx, `INSERT INTO node_availability (node_id, word, codes, since, at) VALUES ($1, $2, $3, $4, $4)
		ON CONFLICT (node_id) DO UPDATE SET codes = excluded.codes, at = excluded.at, word = excluded.word,
			since = CASE WHEN node_availability.word = excluded.word THEN node_availability.since ELSE excluded.since END`,
		nodeID, string(word), sqlkit.JSON(codes), sqlkit.Micros(t.now)); err != nil || !moved || isNew {
		return moved && err == nil, err
	}
	return true, t.tellAvailability(ctx, h, cmp.Or(was, broker.AvailabilityUnknown), word, codes)
}

func (t *tx) tellAvailability(ctx context.Context, h broker.Handout, from, to broker.Availability, codes []string) error {
	data := map[string]any{
		"node_id": h.Node.ID, "hostname": h.Node.Hostname, "site": h.Node.Site, "from": from, "to": to,
		"codes": append([]string{}, codes...),
	}
	if len(codes) > 0 {
		data["code"] = codes[0]
	}
	switch {
	case h.ClaimedBy != "":
		data["allocation_id"] = h.ClaimedBy
	case len(h.Occupants) > 0:
		data["allocation_id"] = h.Occupants[0].ID // a live one, or the last that ended without a certificate
	}
	if h.RunID != "" {
		data["run_id"] = h.RunID
	}
	if h.Certificate != nil {
		data["certificate_id"] = h.Certificate.ID
	}
	return t.send(ctx, told{
		Site: h.Node.Site, CorrelationID: h.RunID,
		Message: chain.Message{Type: AvailabilityEvent, Subject: "node/" + h.Node.ID, Data: data},
	})
}
