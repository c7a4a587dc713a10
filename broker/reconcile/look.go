package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// Looks are the results of looks at sites.
type Looks interface {
	ReconcileLooks(ctx context.Context, sites []string) ([]store.ReconcileLook, error)
	SaveLook(ctx context.Context, actor broker.Actor, l store.ReconcileLook) error
	SaveSeen(ctx context.Context, seen []store.MAASState) error
}

// look is one round at a site. Without a node that is bound to a machine there is nothing to
// compare: MAAS is asked only whether it accepts the key, unless a full look was requested.
func (w *Watch) look(ctx context.Context, site broker.Site, mem *memory, asked bool) error {
	began := w.DB.Now()
	mem.next = w.Now().Add(Every)
	s, err := w.begin(ctx, site)
	if err != nil {
		return err
	}
	if !asked && len(s.view.Nodes) == 0 && len(s.view.Gone) == 0 {
		return w.askKey(ctx, site)
	}
	if err := s.read(ctx, w.Regions, &mem.syncs); err != nil {
		return w.unread(ctx, s, mem, began, err)
	}
	if err := w.settle(ctx, s, mem); err != nil {
		return err
	}
	for _, c := range mem.candidates {
		if c.at.Equal(s.at) { // the next look can confirm the candidate
			mem.next = w.Now().Add(s.policy.confirm())
		}
	}
	s.look.LookedAt, s.look.Complete, s.look.KeyAt = began, began, began
	return w.DB.SaveLook(ctx, broker.System, s.look)
}

// unread handles a look at a site that could not be read whole: nothing of the look counts.
func (w *Watch) unread(ctx context.Context, s *survey, mem *memory, began time.Time, why error) error {
	if ctx.Err() != nil {
		return nil
	}
	last, err := w.DB.ReconcileLooks(ctx, []string{s.site.Name})
	if err != nil {
		return err
	}
	var l store.ReconcileLook
	if len(last) > 0 {
		l = last[0]
	}
	mem.syncs.reset()
	clear(mem.candidates)
	mem.next = w.Now().Add(s.policy.confirm())
	l.Site, l.LookedAt, l.Nodes, l.Trouble, l.Failed = s.site.Name, began, s.look.Nodes, why.Error(), l.Failed+1
	if refused(why) {
		l.KeyAt, l.KeyRefused = began, true
	}
	if l.Failed >= alertAfter {
		mem.next = w.Now().Add(Every)
		l.Stops = slices.DeleteFunc(l.Stops, func(st store.ReconcileStop) bool { return st.Code == unreadCode })
		l.Stops = append(l.Stops, store.ReconcileStop{
			Code: unreadCode, Since: began,
			Text: fmt.Sprintf("the machines of the site cannot be read, and nothing is reconciled: %v", why),
		})
	}
	return w.DB.SaveLook(ctx, broker.System, l)
}

// unreadCode is the code of a site whose machines cannot be read.
const unreadCode = "maas_unread"

// settle writes what has changed, and takes the confirmed steps.
func (w *Watch) settle(ctx context.Context, s *survey, mem *memory) error {
	for _, gone := range s.view.Gone {
		if err := w.DB.HealDrift(ctx, broker.System, gone.NodeID, gone.Rule, "the node has no machine any more"); err != nil {
			return err
		}
	}
	var seen []store.MAASState
	for _, j := range s.judged {
		if !j.unknown && !j.machine.Absent && j.changed(s.site) {
			seen = append(seen, j.seen(s.site))
		}
	}
	if err := w.DB.SaveSeen(ctx, seen); err != nil {
		return err
	}
	stopped := s.stops()
	steps := w.confirmed(s, mem)
	slices.SortStableFunc(steps, func(a, b step) int { return strings.Compare(a.j.node.ID, b.j.node.ID) })
	running := s.running()
	for _, step := range steps {
		if text, stop := stopped[step.j.finding.Action]; stop && step.kind != heal {
			s.stop(step.j.finding.Action, text)
			continue
		}
		if err := w.do(ctx, s, mem, step, &running); err != nil {
			w.Log.Warn("cannot resolve a drift", zap.String("node", step.j.node.ID), zap.String("rule", step.j.finding.ID), zap.Error(err))
			if ctx.Err() != nil {
				return err
			}
			continue
		}
		delete(mem.candidates, step.j.node.ID)
	}
	return nil
}

// stops returns the actions that would change too much at once.
func (s *survey) stops() map[Action]string {
	by, first := map[Action]int{}, map[Action][]string{}
	nodes := 0
	for _, j := range s.judged {
		switch j.node.Status {
		case broker.Active, broker.Offline, broker.Quarantined, broker.Draining, broker.Retired:
			nodes++
		}
		for _, action := range s.changed(j) {
			if by[action]++; len(first[action]) < 3 {
				first[action] = append(first[action], j.node.Hostname)
			}
		}
	}
	out := map[Action]string{}
	for action, n := range by {
		if action != Decommission && s.policy.TooMany(n, nodes) {
			out[action] = fmt.Sprintf("%d of %d nodes of the site would change at once (%s): the broker neither acts on nor records this kind of change; check the site, or raise max_share_percent (hostler site reconcile set %s --max-share N)", n, nodes, strings.Join(first[action], ", "), s.site.Name)
		}
	}
	return out
}

// atOnce is how long a change counts towards a mass change.
const atOnce = time.Hour

// changed returns the ways in which a node would change now, or has changed within atOnce: its
// drift was opened or acted on in this time, even if the drift has ended meanwhile. A quarantine
// counts whatever the node's status is now.
func (s *survey) changed(j *judgedNode) (ways []Action) {
	if j.found && !j.finding.Kept && s.changes(j) {
		ways = append(ways, j.finding.Action)
	} else if (j.recorded.Drift || j.recorded.Acts > 0) && s.at.Sub(j.recorded.FirstSeen) < atOnce {
		r, _ := RuleOf(j.recorded.Rule)
		ways = append(ways, r.Action)
	}
	if s.at.Sub(j.recorded.QuarantinedAt) < atOnce && !slices.Contains(ways, Quarantine) {
		ways = append(ways, Quarantine)
	}
	return ways
}

// changes reports whether a finding is new, or still needs an action.
func (s *survey) changes(j *judgedNode) bool {
	return j.node.Open != j.finding.ID || s.pending(j)
}

func (s *survey) stop(action Action, text string) {
	code := "too_many_" + string(action)
	if !slices.ContainsFunc(s.look.Stops, func(st store.ReconcileStop) bool { return st.Code == code }) {
		s.look.Stops = append(s.look.Stops, store.ReconcileStop{Code: code, Text: text, Since: s.at})
	}
}

// running counts the unfinished decommissions that this package started.
func (s *survey) running() (n int) {
	for _, j := range s.judged {
		if s.view.InRun[j.node.ID] == j.decommission() {
			n++
		}
	}
	return n
}
