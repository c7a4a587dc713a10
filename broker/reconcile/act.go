package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// Drifts are the open drifts of nodes, and the work on them.
type Drifts interface {
	RecordDrift(ctx context.Context, actor broker.Actor, d store.Drift) (recorded bool, err error)
	NoteDriftWork(ctx context.Context, nodeID, rule, work string) error
	HealDrift(ctx context.Context, actor broker.Actor, nodeID, rule, why string) error
	ForgetResolution(ctx context.Context, nodeID string) error
}

// stepKind is what to do about a node.
type stepKind string

const (
	record stepKind = "record" // record a drift, and act if the policy wants it
	act    stepKind = "act"    // act on a recorded drift
	heal   stepKind = "heal"   // the drift is gone
	forget stepKind = "forget" // a drift that a person has resolved is gone
)

type step struct {
	kind stepKind
	j    *judgedNode
}

// pending reports whether an open drift still needs an action.
func (s *survey) pending(j *judgedNode) bool {
	if j.finding.Mode != Act || s.view.Frozen || j.finding.Kept {
		return false
	}
	switch j.finding.Action {
	case Quarantine:
		return j.node.Status != broker.Quarantined
	case Readdress:
		return true
	case Reseed:
		return j.recorded.Rule != j.finding.ID || j.recorded.Acts == 0 || !s.at.Before(j.recorded.ActedAt.Add(backoff(j.recorded.Acts)))
	case Decommission: // once: a cancelled run stays cancelled; and never while a tenant is on the node
		return !j.node.Live && j.node.Open == j.finding.ID && j.recorded.Acts == 0 &&
			!s.at.Before(j.recorded.FirstSeen.Add(s.policy.Grace()))
	}
	return false
}

// recurs reports whether a drift that led to a reseed comes back within a day: the back-off then
// continues.
func (j *judgedNode) recurs(now time.Time) bool {
	return j.finding.Action == Reseed && j.recorded.Rule == j.finding.ID && now.Sub(j.recorded.ActedAt) < 24*time.Hour
}

// backoff is the time until a reseed is tried again: an hour, two, four, up to a day.
func backoff(acts int64) time.Duration {
	if acts >= 6 {
		return 24 * time.Hour
	}
	return time.Hour << (acts - 1)
}

// next returns the step that follows from this observation; false: none.
func (s *survey) next(j *judgedNode) (step, bool) {
	switch {
	case j.unknown || j.node.Held():
		return step{}, false
	case j.node.Open == store.RulePreviousSystem: // MAAS cannot tell whether this drift is gone: a person resolves it
		return step{}, false
	case j.found && j.finding.Kept:
		return step{}, false
	case j.found && j.node.Open != j.finding.ID:
		return step{record, j}, true
	case j.found && s.pending(j):
		return step{act, j}, true
	case !j.found && j.node.Open != "":
		return step{heal, j}, true
	case !j.found && j.node.Kept != "":
		if r, ok := RuleOf(j.node.Kept); ok && r.Kept {
			return step{forget, j}, true
		}
	}
	return step{}, false
}

// confirmed returns the steps that two consecutive observations agree on, far enough apart.
func (w *Watch) confirmed(s *survey, mem *memory) (out []step) {
	standing := map[string]candidate{}
	for _, j := range s.judged {
		next, is := s.next(j)
		if !is {
			continue
		}
		what := fmt.Sprintf("%s %s %s %s %d %s", next.kind, j.finding.ID, j.node.Open, j.node.Status, j.node.Epoch, j.node.MAASSystemID)
		c, had := mem.candidates[j.node.ID]
		if !had || c.what != what {
			c = candidate{what, s.at}
		}
		standing[j.node.ID] = c
		if s.at.Sub(c.at) >= s.policy.confirm() {
			out = append(out, next)
		}
	}
	mem.candidates = standing
	return out
}

// do takes a step. A drift that the machine's own record does not confirm is left for the next
// look.
func (w *Watch) do(ctx context.Context, s *survey, mem *memory, st step, running *int) error {
	j := st.j
	switch st.kind {
	case heal:
		return w.DB.HealDrift(ctx, broker.System, j.node.ID, j.node.Open, healed(j))
	case forget:
		return w.DB.ForgetResolution(ctx, j.node.ID)
	}
	if so, err := s.recheck(ctx, j, &mem.syncs, w.Now); err != nil || !so {
		return err
	}
	switch j.finding.Action {
	case Reseed, Decommission:
		// A decommission run checks the node again when it begins; nothing else does for a reseed.
		if st.kind == record || j.finding.Action == Reseed {
			if recorded, err := w.record(ctx, s, mem, j, false); err != nil || !recorded {
				return err
			}
		}
		if !s.pending(j) {
			return nil
		}
		return w.start(ctx, s, j, running)
	}
	_, err := w.record(ctx, s, mem, j, s.pending(j))
	return err
}

// healed says why a drift is over.
func healed(j *judgedNode) string {
	if j.machine.Absent {
		return fmt.Sprintf("the node is %s", j.node.Status)
	}
	return fmt.Sprintf("the machine is %s in MAAS, and the node is %s", j.machine.StatusName, j.node.Status)
}

func (w *Watch) record(ctx context.Context, s *survey, mem *memory, j *judgedNode, acts bool) (bool, error) {
	d := store.Drift{
		Node: j.node.Node, Seen: j.seen(s.site), Rule: j.finding.ID, Level: string(j.finding.Alert), Text: j.finding.AlertText(j.machine),
		Severity: string(j.finding.Severity), Details: details(j), FirstSeen: mem.candidates[j.node.ID].at,
		Quarantine: acts && j.finding.Action == Quarantine,
	}
	if j.recurs(s.at) {
		d.Again = true
	}
	if acts && j.finding.Action == Readdress {
		d.Address = j.machine.Address
	}
	recorded, err := w.DB.RecordDrift(ctx, broker.System, d)
	if err != nil || !recorded {
		return recorded, err
	}
	say := w.Log.Info
	switch j.finding.Alert {
	case AlertCritical:
		say = w.Log.Error
	case AlertWarn:
		say = w.Log.Warn
	}
	say(d.Text, zap.String("rule", d.Rule), zap.String("node", j.node.ID), zap.String("hostname", j.node.Hostname), zap.Bool("acted", acts))
	return true, nil
}

// start has an agent or a run work on a recorded drift.
func (w *Watch) start(ctx context.Context, s *survey, j *judgedNode, running *int) (err error) {
	var work string
	switch {
	case j.finding.Action == Reseed && w.Reseed != nil:
		first := j.recorded.FirstSeen
		if j.node.Open != j.finding.ID {
			first = j.machine.At
		}
		work, err = w.Reseed.Reseed(ctx, j.node.ID, fmt.Sprintf("drift-hw-sync-%d-%d", first.Unix(), j.recorded.Acts), j.interval)
		if err != nil && broker.AsError(err).Kind == broker.Refused { // refused for now: the back-off counts from here nevertheless
			work, err = taskcatalog.Clean(err.Error(), 300), nil
		}
	case j.finding.Action == Decommission && *running < s.policy.DecommissionsAtOnce:
		*running++
		work, err = w.Decommission.Start(ctx, j.node.Node, j.decommission(), "drift "+j.finding.ID+": "+j.finding.Text)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return w.DB.NoteDriftWork(ctx, j.node.ID, j.finding.ID, work)
}

// decommission is the id of the run for a drift. The id is always the same, so the run is begun
// once, whichever broker begins it and however often, and a later look recognises it.
func (j *judgedNode) decommission() string {
	return fmt.Sprintf("drift-%s-%d", j.node.ID, j.recorded.FirstSeen.Unix())
}

// Details is what a drift's record holds besides the rule.
type Details struct {
	MAASStatus string            `json:"maas_status"`
	Expected   string            `json:"expected"`
	NodeStatus broker.NodeStatus `json:"node_status"`
	Power      string            `json:"power_state,omitempty"`
	IPs        []string          `json:"ip_addresses,omitempty"`
	Host       string            `json:"host,omitempty"`    // the node's address
	Address    string            `json:"address,omitempty"` // the machine's
	Mark       string            `json:"mark,omitempty"`    // the node of the machine's mark
	HeardAt    time.Time         `json:"agent_heard_at,omitzero"`
}

func details(j *judgedNode) json.RawMessage {
	m := j.machine
	status := m.StatusName
	if m.Absent {
		status = "absent"
	}
	raw, err := taskcatalog.Encode(Details{
		MAASStatus: status, Expected: j.finding.Expected, NodeStatus: j.node.Status, Power: m.Power, IPs: m.IPs,
		Host: j.node.Host, Address: m.Address, Mark: m.Mark, HeardAt: j.node.LastAgentContactAt,
	})
	if err != nil {
		return nil // Details holds only what JSON can encode
	}
	return raw
}
