package turnover

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

// NoRun stands for the stage of time during which a turnover was owed and no run was at work.
const NoRun = "no_run"

// SiteFigures is the cost of turnovers at a site during a time.
type SiteFigures struct {
	Site         string
	Turnovers    int           // in progress at some point of the time
	Open         int           // of these, not ended
	NodeLost     time.Duration // nodes out of use
	GPULost      time.Duration // their GPUs
	Median, Most time.Duration // of a whole turnover, so far
}

// BySite sums up outages between two times, by site, the largest loss first.
func BySite(all []broker.Outage, from, to time.Time) []SiteFigures {
	sites, took := map[string]*SiteFigures{}, map[string][]time.Duration{}
	for _, o := range all {
		s := sites[o.Site]
		if s == nil {
			s = &SiteFigures{Site: o.Site}
			sites[o.Site] = s
		}
		lost := o.Duration(from, to)
		s.Turnovers++
		s.NodeLost += lost
		s.GPULost += time.Duration(o.GPUs) * lost
		if o.EndedAt.IsZero() {
			s.Open++
		}
		took[o.Site] = append(took[o.Site], o.Duration(time.Time{}, to))
	}
	out := []SiteFigures{}
	for site, s := range sites {
		all := took[site]
		slices.Sort(all)
		s.Median, s.Most = all[(len(all)-1)/2], all[len(all)-1]
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b SiteFigures) int {
		return cmp.Or(cmp.Compare(b.GPULost, a.GPULost), cmp.Compare(b.NodeLost, a.NodeLost), cmp.Compare(a.Site, b.Site))
	})
	return out
}

// Slowest is the tenth of outages that lasted longest up to a time; at least one if there is any.
func Slowest(all []broker.Outage, to time.Time) []broker.Outage {
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b broker.Outage) int {
		return cmp.Compare(b.Duration(time.Time{}, to), a.Duration(time.Time{}, to))
	})
	return sorted[:(len(sorted)+9)/10]
}

// Cause is the stage that took most of an outage.
type Cause struct {
	Stage string // or NoRun
	Class string // of the stage's last failure; empty: none
	Took  time.Duration
}

// CauseOf finds the cause among the events of the node's turnovers during the outage. A stage
// owns the time until the next event, including the wait after its failure.
func CauseOf(o broker.Outage, events []chain.Event, to time.Time) Cause {
	spent, class := map[string]time.Duration{}, map[string]string{}
	stage, since := NoRun, o.BeganAt
	until := func(t time.Time) {
		if t.After(since) {
			spent[stage] += t.Sub(since)
			since = t
		}
	}
	for _, e := range events {
		until(e.At)
		if e.Stage != "" {
			stage = e.Stage
		}
		switch e.Status {
		case chain.Failed:
			var why struct {
				Class string `json:"failure_class"`
			}
			_ = json.Unmarshal(e.Details, &why) // without details, no class
			class[stage] = why.Class
		case chain.Compensated:
			stage = NoRun // the run was taken back, and the next run begins anew
		}
	}
	if !o.EndedAt.IsZero() {
		to = o.EndedAt
	}
	until(to)
	c := Cause{Stage: NoRun, Took: -1}
	for s, took := range spent {
		if took > c.Took || took == c.Took && s < c.Stage {
			c = Cause{Stage: s, Class: class[s], Took: took}
		}
	}
	return c
}
