package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// The events of silence.
const (
	SilentEvent = "site.silent"
	HeardEvent  = "site.heard"
)

// Silence is the silence of a site, or of all sites, announced when it begins and when it ends.
type Silence struct {
	Site  string // empty: all
	Code  string // site_silent, polls_stopped
	Text  string
	Since time.Time // when the silence was first announced
}

func (s Silence) is(other Silence) bool { return s.Site == other.Site && s.Code == other.Code }

// Silences returns the standing silences.
func (db *DB) Silences(ctx context.Context) ([]Silence, error) { return silences(ctx, db.reader(), "") }

func silences(ctx context.Context, r sqlkit.Runner, lock string) ([]Silence, error) {
	return sqlkit.Collect(ctx, r, func(row sqlkit.Row) (s Silence, err error) {
		return s, row.Scan(&s.Site, &s.Code, &s.Text, sqlkit.ScanMicros(&s.Since))
	}, `SELECT site, code, text, since FROM silences ORDER BY site, code`+lock)
}

// SaveSilences replaces the standing silences. The begin and the end of each silence are announced
// once, as an event and in the audit log. began lists the silences that did not stand before.
// Without a change it only reads.
func (db *DB) SaveSilences(ctx context.Context, actor broker.Actor, now []Silence) (began []Silence, err error) {
	stood, err := db.Silences(ctx)
	isNew := func(s Silence) bool { return !slices.ContainsFunc(stood, s.is) }
	if err != nil || len(stood) == len(now) && !slices.ContainsFunc(now, isNew) {
		return nil, err
	}
	err = db.write(ctx, func(ctx context.Context, t *tx) error {
		began = nil
		stood, err := silences(ctx, t, t.ForUpdate())
		if err != nil {
			return err
		}
		for _, s := range now {
			if slices.ContainsFunc(stood, s.is) {
				continue
			}
			s.Since = t.now
			began = append(began, s)
			if _, err := t.ExecContext(ctx, `INSERT INTO silences (site, code, text, since) VALUES ($1, $2, $3, $4)`, s.Site, s.Code,
				s.Text, sqlkit.Micros(s.Since)); err != nil {
				return err
			}
			if err := t.tellSilence(ctx, actor, SilentEvent, "nodes.silent", s); err != nil {
				return err
			}
		}
		for _, s := range stood {
			if slices.ContainsFunc(now, s.is) {
				continue
			}
			if _, err := t.ExecContext(ctx, `DELETE FROM silences WHERE site = $1 AND code = $2`, s.Site, s.Code); err != nil {
				return err
			}
			if err := t.tellSilence(ctx, actor, HeardEvent, "nodes.heard", s); err != nil {
				return err
			}
		}
		return nil
	})
	return began, err
}

func (t *tx) tellSilence(ctx context.Context, actor broker.Actor, event, action string, s Silence) error {
	subject := "site/" + cmp.Or(s.Site, AllSites)
	err := t.send(ctx, told{
		Site: cmp.Or(s.Site, AllSites),
		Message: chain.Message{
			Type: event, Subject: subject,
			Data: map[string]any{"site": s.Site, "code": s.Code, "text": s.Text, "since": s.Since},
		},
	})
	if err != nil {
		return err
	}
	return t.audit(ctx, broker.AuditEntry{Actor: actor.Name, Action: action, Subject: subject, Code: s.Code, Reason: s.Text})
}

// SiteContact summarises contact with the active and offline nodes of a site.
type SiteContact struct {
	Site        string
	Nodes       int
	Active      int       // of them, not heard but still active
	Offline     int       // of them, not heard and offline
	LastContact time.Time // of any of them; zero: none was ever heard
}

// Silent reports whether no node of the site is heard.
func (c SiteContact) Silent() bool { return c.Active+c.Offline == c.Nodes }

// Contacts returns the contact of each site (nil: all sites) that has active or offline nodes.
func (db *DB) Contacts(ctx context.Context, sites []string) ([]SiteContact, error) {
	var w sqlkit.Where
	w.Add(`status IN ('active', 'offline')`)
	sqlkit.In(&w, "site", sites)
	w.Args = append(w.Args, sqlkit.Micros(db.Now().Add(-broker.SilentAfter)))
	silent := fmt.Sprintf("last_contact_at < $%d", len(w.Args))
	return sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (c SiteContact, err error) {
		return c, row.Scan(&c.Site, &c.Nodes, &c.Active, &c.Offline, sqlkit.ScanMicros(&c.LastContact))
	}, `SELECT site, COUNT(*), COUNT(CASE WHEN status = 'active' AND `+silent+` THEN 1 END), COUNT(CASE WHEN status = 'offline' AND `+silent+` THEN 1 END), MAX(last_contact_at)
		FROM nodes`+w.String()+` GROUP BY site ORDER BY site`, w.Args...)
}
