package presence

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// Policy sets how silence is judged.
type Policy struct {
	Silence time.Duration // a node without a contact for longer is offline
	Share   float64       // of a site's nodes; more at once changes nothing
	AtLeast int           // minimum of nodes for the share to matter
	AllOf   int           // minimum of active nodes for a full stop of polls
}

// DefaultPolicy applies where a site sets nothing else.
var DefaultPolicy = Policy{Silence: broker.SilentAfter, Share: 0.10, AtLeast: 5, AllOf: 2}

// Overdue is the time within which a reachable node is heard: a poll is held for MaxWait, the next
// poll follows within a back-off, and contacts are written in batches.
const Overdue = wire.MaxWait + 25*time.Second

// Fleet is the input of Judge: nodes, and for each site the number of further nodes that are active
// and were heard within Overdue. Of these, nearly all nodes, only the number matters.
type Fleet struct {
	Heard map[string]int
	Nodes []broker.Node
	// ReadAt is when Nodes were there; zero: at the time of the judgement. A node that is silent by
	// ReadAt does not come back, although it was heard shortly before the judgement began.
	ReadAt time.Time
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

// Alert is the silence of many nodes: of a whole site, or of so many nodes at once that the cause
// is more likely the broker's or the network's than the nodes'.
type Alert struct {
	Code string
	Site string // empty: all
	Text string
}

// Stopped reports whether polls have stopped altogether: there are active nodes, and none was heard
// within Overdue. Fewer nodes suffice than for a share: a single silent node of two is common, but
// when both fall silent at once, the cause is more likely between them and the broker.
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
	return Alert{
			PollsStopped, "",
			fmt.Sprintf("none of %d active nodes has made contact for %v; none is marked offline (check that nodes can reach the broker)",
				expected, Overdue),
		},
		expected >= p.AllOf
}

// Judge returns the nodes that change and the alerts of sites. hearing is the time since which this
// broker could have heard agents.
func Judge(now, hearing time.Time, f Fleet, p Policy) (changes []Change, alerts []Alert) {
	type site struct {
		total   int
		silent  int // active, and overdue
		offline int // offline already, and not heard
		gone    []Change
	}
	sites := map[string]*site{}
	readAt := now
	if f.ReadAt.After(now) {
		readAt = f.ReadAt
	}
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
				s.gone = append(s.gone, Change{
					n.ID, broker.Active, broker.Offline,
					fmt.Sprintf("no contact for %v", silence.Round(time.Second)),
				})
			}
		case n.Status == broker.Offline && readAt.Sub(n.LastAgentContactAt) > p.Silence:
			s.offline++
		case n.Status == broker.Offline && !n.TurnoverOwed:
			changes = append(changes, Change{n.ID, broker.Offline, broker.Active, "heard again"})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		s := sites[name]
		if s.silent >= p.AtLeast && float64(s.silent) > p.Share*float64(s.total) {
			if len(s.gone) > 0 {
				alerts = append(alerts,
					Alert{
						SiteSilent, name,
						fmt.Sprintf("%d of %d nodes of the site became silent at once; none is marked offline (check the network between site and broker)", s.silent, s.total),
					})
			}
			continue
		}
		if s.total > 0 && len(s.gone)+s.offline == s.total {
			alerts = append(alerts,
				Alert{
					SiteSilent, name,
					fmt.Sprintf("none of the %d nodes of the site makes contact; each is marked offline (check the site's power, and the network between site and broker)", s.total),
				})
		}
		changes = append(changes, s.gone...)
	}
	return changes, alerts
}
