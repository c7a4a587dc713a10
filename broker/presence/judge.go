package presence

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Policy says how silence is judged.
type Policy struct {
	Silence time.Duration // without a word for longer, a node is offline
	Share   float64       // of a site's nodes; more than that at once changes nothing
	AtLeast int           // nodes, for the share to matter
	AllOf   int           // active nodes, for their silence to be a full stop of polls
}

// DefaultPolicy is what applies where a site says nothing else.
var DefaultPolicy = Policy{Silence: broker.SilentAfter, Share: 0.10, AtLeast: 5, AllOf: 2}

// Overdue is when a node that is there has been heard: a poll is held for
// MaxWait, the next one follows within a back-off, and contacts are written in
// batches.
const Overdue = wire.MaxWait + 25*time.Second

// Fleet is what is judged: nodes, and how many more of each site are active and were heard
// within Overdue. Of those, nearly all, nothing else matters.
type Fleet struct {
	Heard map[string]int
	Nodes []broker.Node
}

// Change is a node's next status.
type Change struct {
	NodeID   string
	From, To broker.NodeStatus
	Reason   string
}

// The codes of alerts.
const (
	SiteSilent   = "site_silent"
	PollsStopped = "polls_stopped"
)

// Alert is silence of many nodes: of a whole site, or of so many at once that it is more
// likely ours than theirs.
type Alert struct {
	Code string
	Site string // empty: all
	Text string
}

// Stopped reports whether polls have stopped altogether: nodes are expected and
// none was heard for so long that each should have been. It takes fewer nodes
// than a share does: that one of two falls silent happens, that both do at once
// is more likely what is between.
func Stopped(now time.Time, f Fleet, p Policy) (Alert, bool) {
	expected := 0
	if len(f.Heard) > 0 {
		return Alert{}, false
	}
	for _, n := range f.Nodes {
		if n.Status != broker.Active {
			continue
		}
		if now.Sub(n.LastAgentContactAt) <= Overdue {
			return Alert{}, false
		}
		expected++
	}
	return Alert{PollsStopped, "", fmt.Sprintf("none of %d active nodes has been heard for %v; none is marked offline (can they reach the broker?)", expected, Overdue)},
		expected >= p.AllOf
}

// Judge says which nodes change and which sites are left alone. hearing is
// since when this system could have heard.
func Judge(now, hearing time.Time, f Fleet, p Policy) (changes []Change, alerts []Alert) {
	type site struct {
		total   int
		silent  int // active, and overdue
		offline int // offline already, and not heard
		gone    []Change
	}
	sites := map[string]*site{}
	for _, n := range f.Nodes {
		s := sites[n.Site]
		if s == nil {
			s = &site{total: f.Heard[n.Site]}
			sites[n.Site] = s
		}
		if n.Status == broker.Active || n.Status == broker.Offline {
			s.total++
		}
		heard := n.LastAgentContactAt
		if heard.Before(hearing) {
			heard = hearing
		}
		silence := now.Sub(heard)
		switch {
		case n.Status == broker.Active && silence > Overdue:
			s.silent++
			if silence > p.Silence {
				s.gone = append(s.gone, Change{n.ID, broker.Active, broker.Offline, fmt.Sprintf("not heard for %v", silence.Round(time.Second))})
			}
		case n.Status == broker.Offline && now.Sub(n.LastAgentContactAt) > p.Silence:
			s.offline++
		case n.Status == broker.Offline && !n.TurnoverOwed:
			changes = append(changes, Change{n.ID, broker.Offline, broker.Active, "heard again"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		s := sites[name]
		if s.silent >= p.AtLeast && float64(s.silent) > p.Share*float64(s.total) {
			if len(s.gone) > 0 {
				alerts = append(alerts, Alert{SiteSilent, name, fmt.Sprintf("%d of %d nodes of the site have fallen silent at once; none is marked offline (look at the network between)", s.silent, s.total)})
			}
			continue
		}
		if s.total > 0 && len(s.gone)+s.offline == s.total {
			alerts = append(alerts, Alert{SiteSilent, name, fmt.Sprintf("none of the %d nodes of the site is heard; each is marked offline (look at the site's power, and the network between)", s.total)})
		}
		changes = append(changes, s.gone...)
	}
	return changes, alerts
}
