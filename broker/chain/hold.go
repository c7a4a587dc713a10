package chain

import (
	"slices"
	"time"
)

// HoldKind says why no stage begins.
type HoldKind string

// The kinds.
const (
	Freeze      HoldKind = "freeze"      // an operator's stop button
	Unreachable HoldKind = "unreachable" // a stage returned Hold
	Restored    HoldKind = "restored"    // the database was restored and is not released yet
)

// SiteHold keeps stages from beginning at a site.
type SiteHold struct {
	Site   string // empty: all
	Kind   HoldKind
	Reason string
	By     string // an operator, or system
	Since  time.Time
	Until  time.Time // zero: still in force
}

const (
	// ProbeEvery is how often one run tries an unreachable site.
	ProbeEvery = 30 * time.Second
	// SpreadOver is the time within which all runs of a site continue after a hold was lifted.
	SpreadOver = time.Minute
)

// HeldTime is how much of the time between two moments lies in holds, each moment counted once.
func HeldTime(holds []SiteHold, from, to time.Time) time.Duration {
	holds = slices.SortedFunc(slices.Values(holds), func(a, b SiteHold) int { return a.Since.Compare(b.Since) })
	var stood time.Duration
	for _, h := range holds {
		until := to
		if !h.Until.IsZero() && h.Until.Before(to) {
			until = h.Until
		}
		since := h.Since
		if since.Before(from) {
			since = from
		}
		if until.After(since) {
			stood += until.Sub(since)
			from = until
		}
	}
	return stood
}

// Action is the audit action for placing a hold: site.freeze, site.unreachable, site.restored.
func (k HoldKind) Action() string { return "site." + string(k) }

// Lifting is the audit action for lifting a hold.
func (k HoldKind) Lifting() string {
	switch k {
	case Freeze:
		return "site.unfreeze"
	case Restored:
		return "site.released"
	}
	return "site.reachable"
}

// About is the audit subject: site/dc1, or site/* for all.
func (h SiteHold) About() string {
	if h.Site == "" {
		return "site/*"
	}
	return "site/" + h.Site
}

// Placed is the message for a new hold.
func (h SiteHold) Placed() Message { return h.message(h.Kind.Action()) }

// Lifted is the message for a lifted hold. standing counts the holds of the same kind still in
// force at the site.
func (h SiteHold) Lifted(standing int) Message {
	m, data := h.message(h.Kind.Lifting()), h.data()
	data["still_standing"] = standing
	m.Data = data
	return m
}

func (h SiteHold) message(kind string) Message {
	return Message{Type: kind, Subject: h.About(), Data: h.data()}
}

func (h SiteHold) data() map[string]any {
	return map[string]any{"site": h.Site, "kind": h.Kind, "reason": h.Reason, "by": h.By, "since": h.Since}
}

// HeldBy adds to a moving run the longest-standing hold that the run waits for, as the reason for
// waiting.
func (r Record) HeldBy(holds []SiteHold) Record {
	if !r.Status.Moving() {
		return r
	}
	for _, h := range holds {
		if !h.Until.IsZero() || h.Site != "" && h.Site != r.Site || !r.HeldSince.IsZero() && !h.Since.Before(r.HeldSince) {
			continue
		}
		r.HeldSince, r.Waiting = h.Since, string(h.Kind)+": "+h.Reason
	}
	return r
}
