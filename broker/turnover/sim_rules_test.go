//go:build !race

package turnover_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

var (
	inService = []broker.NodeStatus{broker.Active, broker.Offline}
	out       = []broker.NodeStatus{broker.Retired, broker.Quarantined}
	inHand    = append([]broker.NodeStatus{broker.Draining}, out...)
	unmoved   = slices.Concat(inService, out)
)

// part is how far a run has come.
type part string

const (
	taking   part = "before it has done anything to the node"
	draining part = "while it drains the node"
	cleaning part = "while it has the node out of service"
	retiring part = "as it retires the node"
	handing  part = "as it hands the node out"
	leaving  part = "as it removes the node"
	gone     part = "when the node is gone"
	emptying part = "as it empties the storage of a node that stays in service"
)

// pairs are the allowed pairs of node status and run status (architecture, chapter 6). A run that
// could not take its node, because of a tenant, has stopped before any work, and the node is
// unchanged. After a failed drain an operator may quarantine the node: until then the node is
// draining, and belongs to the run. After the drain the node is retired, or quarantined by a
// finding, by an identity conflict, or by the cancel. If a person lets the run continue without
// its drain, the node is draining until it is given back or retired. The node of a running run may
// already have the status that a step gave it whose save was lost.
var pairs = map[part]map[chain.Status][]broker.NodeStatus{
	taking: {
		chain.Pending: unmoved, chain.Running: unmoved, chain.Compensating: unmoved, chain.Cancelled: unmoved,
		chain.FailedRetryable: unmoved, chain.FailedManual: unmoved,
	},
	draining: {
		chain.Pending: inHand, chain.Running: inHand, chain.Compensating: inHand, chain.Cancelled: {broker.Quarantined},
		chain.FailedRetryable: inHand, chain.FailedManual: inHand,
	},
	cleaning: {
		chain.Pending: out, chain.Running: out, chain.Compensating: out, chain.Cancelled: {broker.Quarantined},
		chain.FailedRetryable: out, chain.FailedManual: out,
	},
	retiring: {
		chain.Pending: out, chain.Running: inHand, chain.Compensating: inHand, chain.Cancelled: {broker.Quarantined},
		chain.FailedRetryable: out, chain.FailedManual: out,
	},
	handing: {
		chain.Pending: out, chain.Running: slices.Concat(out, inService), chain.Compensating: slices.Concat(out, inService), chain.Cancelled: {broker.Quarantined},
		chain.FailedRetryable: out, chain.FailedManual: out, chain.Completed: inService, chain.Reconciled: inService, // handed out, and silent or drained since
	},
	leaving: {
		chain.Pending: {broker.Retired}, chain.Running: {broker.Retired, broker.Removing, broker.Deleted, broker.Quarantined}, chain.Compensating: {broker.Retired, broker.Removing, broker.Deleted, broker.Quarantined},
		chain.FailedRetryable: {broker.Retired, broker.Quarantined}, chain.FailedManual: out, chain.Cancelled: {broker.Retired, broker.Quarantined, broker.Deleted},
	},
	gone: {
		chain.Pending: {broker.Deleted}, chain.Running: {broker.Deleted}, chain.Compensating: {broker.Deleted}, chain.Cancelled: {broker.Deleted},
		chain.FailedRetryable: {broker.Deleted}, chain.FailedManual: {broker.Deleted}, chain.Completed: {broker.Deleted}, chain.Reconciled: {broker.Deleted},
	},
	emptying: {
		chain.Pending: unmoved, chain.Running: unmoved, chain.Compensating: unmoved, chain.Cancelled: {broker.Quarantined},
		chain.FailedRetryable: {broker.Quarantined}, chain.FailedManual: {broker.Quarantined}, chain.Completed: unmoved, chain.Reconciled: unmoved,
	},
}

// partOf is how far a run has come.
func (s *simulation) partOf(r *begun, stage string) part {
	switch {
	case r.req.Mode == turnover.StorageCleanup && s.book.Asked(r.box.id, r.id):
		return emptying
	case r.req.Mode == turnover.StorageCleanup:
		return taking
	case slices.Contains([]string{"cleanup_secrets", "remove_maas_record"}, stage):
		return gone
	case stage == "remove_gpuaas_node_record":
		return leaving
	case r.removed:
		return gone
	case !r.taken:
		return taking
	case slices.Contains([]string{"disable_node", "force_release_allocations", "drain_node"}, stage):
		return draining
	case stage == "retire_gpuaas_node":
		return retiring
	case stage == "enable_node":
		return handing
	}
	return cleaning
}

func (s *simulation) state(r *begun) turnover.Turnover {
	raw := s.run(r.id).State
	if !bytes.Equal(raw, r.raw) { // most saves only wait
		r.raw, r.state = raw, turnover.Turnover{}
		s.must(json.Unmarshal(raw, &r.state))
	}
	return r.state
}

// saved checks every save: a run's own state must be true.
func (s *simulation) saved(c chain.Change, err error) {
	r := s.runOf(c.Record.ID)
	if err != nil || r == nil {
		return
	}
	s.check()
	now, node, state := s.run(r.id), s.book.Machine(r.box.id), s.state(r)
	at := s.partOf(r, now.Stage)
	if now.Status.Moving() && now.Direction == chain.Forward && c.Record.Stage != "" && at == gone && node.Status != broker.Deleted {
		s.wrong("run %s is at %s, and node %s is %s", r.id, now.Stage, node.ID, node.Status)
	}
	may := pairs[at][now.Status]
	if r.frozen && now.Status == chain.FailedManual { // a person has stopped it where it was
		may = pairs[at][chain.Running]
	}
	if at == emptying && now.Failure != nil && now.Failure.Code == "broken" { // its records refuse a quarantine
		may = pairs[at][chain.Running]
	}
	if at == cleaning && slices.ContainsFunc(now.Progress.Waived, func(w chain.Waiver) bool { return w.Stage == "drain_node" }) {
		may = append(slices.Clone(may), broker.Draining) // until its machine is given back, or it is retired
	}
	if r.box.passed && !now.Status.Ended() {
		may = append(slices.Clone(may), inService...)
	}
	if !slices.Contains(may, node.Status) {
		s.wrong("run %s is %s at %s (%s), and node %s is %s (%s)", r.id, now.Status, now.Stage, at, node.ID, node.Status, node.StatusReason)
	}
	for _, e := range c.Events {
		if e.Status != chain.Succeeded {
			continue
		}
		if s.trulyDone(r, state, e); slices.Contains([]string{"rotate_node_identity", "wait_for_agent_enrollment"}, e.Stage) {
			s.rekeyed(r.box)
		}
	}
	if c.Unreachable != "" && s.unansweredAt.IsZero() {
		s.wrong("run %s holds the site, which has answered: %s", r.id, c.Unreachable)
	}
	if !state.WipedAt.IsZero() {
		for _, a := range node.Users {
			if a.Live() {
				s.wrong("run %s had the machine of node %s wiped at %s, and allocation %s is live", r.id, node.ID, state.WipedAt.Format(time.TimeOnly), a.ID)
			}
		}
	}
	if i := slices.Index(reimages, now.Stage); r.req.Mode == turnover.Reimage && i > slices.Index(reimages, "wait_for_agent_enrollment") && now.Direction == chain.Forward && node.Denied() {
		s.wrong("run %s is at %s, and has cut off the system that it has deployed", r.id, now.Stage)
	}
	switch {
	case now.Status.Stopped() && (now.Failure == nil || now.Failure.Message == "" || now.NextAction == ""):
		s.wrong("run %s is %s, and says not why, or what to do: %+v, %q", r.id, now.Status, now.Failure, now.NextAction)
	case now.Status == chain.Cancelled && r.req.Mode == turnover.StorageCleanup && s.book.Asked(r.box.id, r.id) && (slices.Contains(inService, node.Status) || !node.TurnoverOwed && node.Status != broker.Deleted):
		s.wrong("run %s is cancelled, its node %s was begun to be cleaned, and it is %s, owed %v", r.id, node.ID, node.Status, node.TurnoverOwed)
	case now.Status == chain.Cancelled && r.taken && node.Status != broker.Deleted && !node.TurnoverOwed:
		s.wrong("run %s is cancelled, and node %s is owed no turnover", r.id, node.ID)
	case now.Status == chain.Cancelled && !r.taken && !s.book.Asked(r.box.id, r.id) && !r.owed && node.TurnoverOwed && node.StatusReason != "previous_os_alive":
		s.wrong("run %s is cancelled, which never had node %s: it is %s (%s), and is owed a turnover", r.id, node.ID, node.Status, node.StatusReason)
	case now.Status.Stopped() && r.taken && !r.box.passed && node.Status != broker.Deleted && !node.TurnoverOwed && !(r.handed && node.Status == broker.Quarantined):
		s.wrong("run %s is %s, and node %s is owed no turnover", r.id, now.Status, node.ID)
	}
}

// trulyDone checks a finished stage: its last task has succeeded, and the users that the stage
// ends are gone, whatever the outcome of their tasks.
func (s *simulation) trulyDone(r *begun, state turnover.Turnover, e chain.Event) {
	for _, d := range state.Tasks {
		if d.Stage != e.Stage || e.Direction != chain.Forward {
			continue
		}
		k := s.book.Task(d.ID)
		gone := k.Type == "allocation.revoke_user" && !slices.ContainsFunc(s.book.Machine(r.box.id).Users, func(a broker.Occupant) bool { return a.ID == d.For && a.Live() })
		if k.Status != broker.TaskSucceeded && !gone {
			s.wrong("run %s says that %s is done, and its task %s (%s) is %s: %s", r.id, e.Stage, k.ID, k.Type, k.Status, k.Code)
		}
	}
}

// check checks the state after every step and every person's action.
func (s *simulation) check() {
	s.newCertificates()
	for _, b := range s.boxes {
		node, run := s.book.Machine(b.id), s.live(b.id)
		was := b.was
		if was != node.Status {
			b.since, b.stays = s.clock.Now(), false
		}
		b.was, b.passed = node.Status, b.passed && !node.TurnoverOwed
		use := slices.Contains(inService, node.Status)
		switch {
		case was == broker.Deleted && node.Status != broker.Deleted:
			s.wrong("node %s, which was deleted, is %s", b.id, node.Status)
		case was == broker.Deleted && node.Epoch != b.epoch:
			s.wrong("node %s was deleted, and has enrolled since", b.id)
		case node.Status == broker.Deleted && !node.Denied():
			s.wrong("node %s is deleted, and its certificate is good", b.id)
		case use && node.TurnoverOwed:
			s.wrong("node %s is %s, and a turnover is owed", b.id, node.Status)
		case (node.Status == broker.Draining || node.Status == broker.Removing) && run == nil:
			s.wrong("node %s is %s, and no run has it", b.id, node.Status)
		case use && !slices.Contains(inService, was):
			s.handedOut(b, node)
		case use && !b.conflictAt.IsZero():
			s.wrong("node %s is %s, and two have its identity since %s", b.id, node.Status, b.conflictAt.Format(time.TimeOnly))
		}
		b.epoch = node.Epoch
		if run != nil && node.TurnoverOwed {
			run.handed = false
		}
		if node.Status == broker.Deleted && was != broker.Deleted {
			s.counts["nodes gone"]++
			if run != nil {
				run.removed = true
			}
		}
		if run == nil {
			continue
		}
		for _, a := range node.Users {
			if began := s.run(run.id).RequestedAt; a.Since.After(began) {
				s.wrong("allocation %s was let in on node %s at %s, which run %s has since %s", a.ID, b.id, a.Since.Format(time.TimeOnly), run.id, began.Format(time.TimeOnly))
			}
		}
	}
}

// handedOut checks a node that has come into service: by a certificate of the run in the present
// step, verifiable and true.
func (s *simulation) handedOut(b *box, node turnovertest.Machine) {
	b.passed = false
	s.counts["nodes handed out"]++
	r := s.runOf(s.stepping)
	if r == nil || r.box != b {
		s.wrong("node %s is %s (%s), and no run of it has done that", b.id, node.Status, node.StatusReason)
		return
	}
	var of []string
	for _, id := range s.book.Certificates() {
		if report, err := s.book.Verify(id); err == nil && report.Clean != nil && report.Clean.Run.ID == r.id {
			of = append(of, id)
		}
	}
	if len(of) == 0 {
		s.wrong("node %s is %s by run %s, which has no certificate", b.id, node.Status, r.id)
		return
	}
	report, err := s.book.Verify(of[len(of)-1])
	if err != nil || !report.Holds() {
		s.wrong("node %s is %s by run %s, whose certificate does not hold: %v %+v", b.id, node.Status, r.id, err, report)
		return
	}
	c, state := report.Clean, s.state(r)
	if c.Node.ID != b.id || c.Node.Epoch != node.Epoch || c.Validation.Verdict != taskcatalog.VerdictClean || !c.Verdict.MeetsPolicy {
		s.wrong("node %s (epoch %d) is %s by certificate %s of node %s (epoch %d), validated %s", b.id, node.Epoch, node.Status, c.ID, c.Node.ID, c.Node.Epoch, c.Validation.Verdict)
	}
	if r.req.Mode == turnover.Reimage && node.ShownAt().After(state.HeardAt) {
		s.wrong("node %s is %s by run %s, and its previous system was heard of at %s", b.id, node.Status, r.id, node.ShownAt().Format(time.TimeOnly))
	}
	switch {
	case b.conflictAt.IsZero():
	case c.Node.IdentitySince.After(b.conflictAt):
		s.counts["conflicts settled by another key"]++
	case !state.ConflictTaken.Before(b.conflictAt) && !r.adopted.Before(b.conflictAt):
		s.counts["conflicts answered for"]++
	default:
		s.wrong("node %s is %s by run %s: two had its identity at %s, its key is that of %s, and nobody has answered for it", b.id, node.Status, r.id, b.conflictAt.Format(time.TimeOnly), c.Node.IdentitySince.Format(time.TimeOnly))
	}
	b.conflictAt, r.handed = time.Time{}, true
	s.truly(b, r, c)
}

// truly compares the certificate of a handed-out node with the simulated truth.
func (s *simulation) truly(b *box, r *begun, c *certificate.Clean) {
	made := s.book.Tasks(b.id, "node.validate_clean")
	i := slices.IndexFunc(made, func(k broker.Task) bool { return k.ID == c.Validation.TaskID })
	if i < 0 || made[i].CorrelationID != r.id || made[i].Status != broker.TaskSucceeded || made[i].NodeEpoch != c.Node.Epoch {
		s.wrong("certificate %s stands on validation %q, which is none of its run", c.ID, c.Validation.TaskID)
		return
	}
	looked := made[i].EndedAt
	if c.Allocation != nil && looked.Before(c.Allocation.ReleasedAt) {
		s.wrong("certificate %s stands on a validation of %s, and its tenant left at %s", c.ID, looked.Format(time.TimeOnly), c.Allocation.ReleasedAt.Format(time.TimeOnly))
	}
	for _, f := range b.fault {
		if f.from.Before(looked) && (f.to.IsZero() || f.to.After(looked)) {
			s.wrong("certificate %s says that node %s is clean, which it was not from %s on", c.ID, b.id, f.from.Format(time.TimeOnly))
		}
	}
}

func (s *simulation) newCertificates() {
	all := s.book.Certificates()
	for _, id := range all[s.certified:] {
		report, err := s.book.Verify(id)
		if err != nil {
			s.wrong("certificate %s does not verify: %v", id, err)
			continue
		}
		if c := report.Clean; c.Environment == certificate.FreshOS {
			s.freshly(s.runOf(c.Run.ID).box, s.book.Machine(c.Node.ID), c)
		}
	}
	s.certified = len(all)
}

// freshly compares each certificate of a fresh system with the machine's history: MAAS had the
// machine back and redeployed it after its last tenant came, and the node's key is newer.
func (s *simulation) freshly(b *box, node turnovertest.Machine, c *certificate.Clean) {
	s.counts["certificates of a fresh system"]++
	var freed, deploying, deployed, ready, asked time.Time
	for _, h := range s.region.History(b.systemID) {
		switch {
		case h.What == "status" && (h.To == maassim.Ready.String() || h.To == maassim.New.String()):
			ready = h.At
		case h.What == "status" && h.To == maassim.Deploying.String():
			asked = h.At
		case h.What == "status" && h.To == maassim.Deployed.String() && ready.After(freed):
			freed, deploying, deployed = ready, asked, h.At
		}
	}
	for _, a := range node.Users {
		// A person may free a machine whose system goes on until the redeployment.
		if a.Since.After(freed) && (a.Live() || a.EndedAt.After(deploying)) || a.EndedAt.After(deployed) {
			s.wrong("certificate %s says fresh_os: allocation %s was on node %s from %s to %s, MAAS had it back at %s and deployed it from %s to %s",
				c.ID, a.ID, b.id, a.Since.Format(time.TimeOnly), a.EndedAt.Format(time.TimeOnly), freed.Format(time.TimeOnly), deploying.Format(time.TimeOnly), deployed.Format(time.TimeOnly))
		}
	}
	if freed.IsZero() || deployed.IsZero() || c.Node.IdentitySince.Before(deployed) {
		s.wrong("certificate %s says fresh_os: MAAS had the machine back at %v, deployed it at %v, and the node has its key since %v", c.ID, freed, deployed, c.Node.IdentitySince)
	}
}
