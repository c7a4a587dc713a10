package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// Refusals of strangers, callers without a good token or certificate, get one audit row of each
// kind per StrangersEvery. If a kind was not refused for that long, its next refusal is written at
// once, unchanged. The following refusals are counted by the caller's network, and summarised:
//
//	refused at the door  →  counts in memory  →  stranger_refusals  →  one audit row
//	                        FlushStrangers       SummariseStrangers
//
// A crash loses the counts since the last flush. Action and code are the broker's own words, so
// there are few kinds. Networks may be many: beyond maxSources networks, a kind counts the rest as
// elsewhere.
const (
	StrangersEvery = 10 * time.Minute
	maxSources     = 64
	toldSources    = 8  // sources named in the text of a summary
	elsewhere      = "" // the source that stands for all others
)

type strangerKind struct{ action, code string }

type tally struct {
	refusals    int64
	first, last time.Time
}

func (c tally) and(more tally) tally {
	if c.refusals == 0 {
		return more
	}
	c.refusals += more.refusals
	if more.first.Before(c.first) {
		c.first = more.first
	}
	if more.last.After(c.last) {
		c.last = more.last
	}
	return c
}

// strangers holds counts that are not in the database yet. Its zero value is ready.
type strangers struct {
	mu      sync.Mutex
	lastOf  map[strangerKind]time.Time
	counted map[strangerKind]map[string]tally
}

// first reports whether a refusal must be written unchanged; other refusals are counted.
func (s *strangers) first(k strangerKind, source string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastOf == nil {
		s.lastOf = map[strangerKind]time.Time{}
	}
	last, seen := s.lastOf[k]
	s.lastOf[k] = now
	if !seen || now.Sub(last) >= StrangersEvery {
		return true
	}
	s.add(k, source, tally{refusals: 1, first: now, last: now})
	return false
}

func (s *strangers) add(k strangerKind, source string, c tally) {
	if s.counted == nil {
		s.counted = map[strangerKind]map[string]tally{}
	}
	of := s.counted[k]
	if of == nil {
		of = map[string]tally{}
		s.counted[k] = of
	}
	if _, known := of[source]; !known && len(of) >= maxSources {
		source = elsewhere
	}
	of[source] = of[source].and(c)
}

func (s *strangers) take() map[strangerKind]map[string]tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.counted
	s.counted = nil
	return taken
}

func (s *strangers) giveBack(counted map[strangerKind]map[string]tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, of := range counted {
		for source, c := range of {
			s.add(k, source, c)
		}
	}
}

// NetworkOf returns the network that an address counts as: an IPv6 /64, because the holder of an
// IPv6 address controls its whole /64, or an IPv4 /24. For text that is not an address it returns
// "".
func NetworkOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return elsewhere
	}
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 24
	}
	return netip.PrefixFrom(a, bits).Masked().String()
}

// AuditStranger writes or counts the refusal of a caller without a good token or certificate.
// remote is the caller's address. The subject in e is the caller's own claim, and appears in no
// summary.
func (db *DB) AuditStranger(ctx context.Context, e broker.AuditEntry, remote string) error {
	if !db.strangers.first(strangerKind{e.Action, e.Code}, NetworkOf(remote), db.Now()) {
		return nil
	}
	return db.Audit(ctx, e)
}

// FlushStrangers moves the counts into the database. Without counts it runs no query.
func (db *DB) FlushStrangers(ctx context.Context) error {
	counted := db.strangers.take()
	if len(counted) == 0 {
		return nil
	}
	err := db.write(ctx, func(ctx context.Context, t *tx) error {
		for k, of := range counted {
			if err := t.addStrangers(ctx, k, of); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		db.strangers.giveBack(counted)
	}
	return err
}

func (t *tx) addStrangers(ctx context.Context, k strangerKind, of map[string]tally) error {
	known, err := sqlkit.Collect(ctx, t, scanText, `SELECT source FROM stranger_refusals WHERE action = $1 AND code = $2`, k.action, k.code)
	if err != nil {
		return err
	}
	// The most refused sources get the places.
	most := slices.SortedFunc(maps.Keys(of),
		func(a, b string) int { return cmp.Or(cmp.Compare(of[b].refusals, of[a].refusals), cmp.Compare(a, b)) })
	for _, source := range most {
		c := of[source]
		if !slices.Contains(known, source) {
			if len(known) >= maxSources {
				source = elsewhere
			}
			known = append(known, source)
		}
		if _, err := t.ExecContext(ctx,
			`INSERT INTO stranger_refusals (action, code, source, refusals, first_at, last_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (action, code, source) DO UPDATE SET refusals = stranger_refusals.refusals + excluded.refusals,
			first_at = CASE WHEN excluded.first_at < stranger_refusals.first_at THEN excluded.first_at ELSE stranger_refusals.first_at END,
			last_at = CASE WHEN excluded.last_at > stranger_refusals.last_at THEN excluded.last_at ELSE stranger_refusals.last_at END`,
			k.action, k.code, source, c.refusals, sqlkit.Micros(c.first), sqlkit.Micros(c.last)); err != nil {
			return err
		}
	}
	return nil
}

// strangerRow is a row of stranger_refusals.
type strangerRow struct {
	strangerKind
	source string
	tally
}

func scanStranger(row sqlkit.Row) (r strangerRow, err error) {
	err = row.Scan(&r.action, &r.code, &r.source, &r.refusals, sqlkit.ScanMicros(&r.first), sqlkit.ScanMicros(&r.last))
	return r, err
}

// SummariseStrangers writes an audit row for each kind whose first refusal was counted
// StrangersEvery ago, and deletes the summarised counts. The leader calls it.
func (db *DB) SummariseStrangers(ctx context.Context) error {
	const due = `SELECT action, code FROM stranger_refusals GROUP BY action, code HAVING MIN(first_at) <= $1`
	before := sqlkit.Micros(db.Now().Add(-StrangersEvery))
	var some bool
	if err := db.reader().QueryRowContext(ctx, `SELECT EXISTS (`+due+`)`, before).Scan(&some); err != nil || !some {
		return err
	}
	return db.write(ctx, func(ctx context.Context, t *tx) error {
		// Deleted and read in one statement, so that no broker adds to a row in between.
		rows, err := sqlkit.Collect(ctx, t, scanStranger, `DELETE FROM stranger_refusals WHERE (action, code) IN (`+due+`)
			RETURNING action, code, source, refusals, first_at, last_at`, before)
		if err != nil {
			return err
		}
		slices.SortFunc(rows, func(a, b strangerRow) int {
			return cmp.Or(cmp.Compare(a.action, b.action), cmp.Compare(a.code, b.code), cmp.Compare(b.refusals, a.refusals),
				cmp.Compare(a.source, b.source))
		})
		for len(rows) > 0 {
			kind, n := rows[0].strangerKind, 0
			for n < len(rows) && rows[n].strangerKind == kind {
				n++
			}
			if err := t.audit(ctx, summaryOf(rows[:n])); err != nil {
				return err
			}
			rows = rows[n:]
		}
		return nil
	})
}

// summaryOf is the audit row of refusals of one kind, ordered by count, highest first.
func summaryOf(rows []strangerRow) broker.AuditEntry {
	k := rows[0].strangerKind
	var all, others tally
	var told []string
	sources := map[string]int64{}
	for _, r := range rows {
		all = all.and(r.tally)
		if r.source == elsewhere {
			others = others.and(r.tally)
			continue
		}
		sources[r.source] = r.refusals
		if len(told) < toldSources {
			told = append(told, fmt.Sprintf("%s (%d)", r.source, r.refusals))
		} else {
			others = others.and(r.tally)
		}
	}
	if others.refusals > 0 {
		told = append(told, fmt.Sprintf("other networks (%d)", others.refusals))
	}
	e := broker.AuditEntry{Actor: "unknown", Action: k.action, Subject: "strangers", Code: k.code}
	e.Reason = fmt.Sprintf("%d refusals of %s between %s and %s, from %s",
		all.refusals, k.code, all.first.Format(time.RFC3339), all.last.Format(time.RFC3339), strings.Join(told, ", "))
	e.After = small("refusals", all.refusals, "from", all.first, "to", all.last, "networks", sources)
	return e
}
