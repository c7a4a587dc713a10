package turnovertest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// taskTime is how long an agent needs for a task.
const taskTime = 5 * time.Second

// onlyIn maps task types to the only node statuses in which the queue accepts them.
var onlyIn = map[string][]broker.NodeStatus{
	"node.uninstall":  {broker.Removing, broker.Enrolling},
	"node.disk_erase": {broker.Draining, broker.Retired, broker.Quarantined},
}

// Request implements taskstage.Tasks: a task is queued at once, and has ended when it is asked for
// some seconds later.
func (b *Book) Request(_ context.Context, t taskstage.Task) (broker.Task, error) {
	leave, err := b.enter("Ask")
	if err != nil {
		return broker.Task{}, err
	}
	defer leave()
	m := b.nodes[t.NodeID]
	key := t.NodeID + " " + t.Key
	k, had := b.tasks[key]
	if !had {
		if at, limited := onlyIn[t.Type]; m.Status == broker.Deleted || limited && !slices.Contains(at, m.Status) {
			return broker.Task{}, broker.Errorf(broker.Refused, "node_status", "cannot enqueue %s: node %s is %s", t.Type, m.ID, m.Status)
		}
		b.made++
		typ, err := taskcatalog.Latest(t.Type)
		if err != nil {
			typ = taskcatalog.Type{Name: t.Type, Version: 1}
		}
		id := fmt.Sprintf("t-%06d", b.made)
		k = &broker.Task{
			ID: id, NodeID: m.ID, NodeEpoch: m.Epoch, Type: t.Type, Version: typ.Version, Params: raw(t.Params),
			EnvelopeDigest: pki.Digest([]byte(id)),
			IdempotencyKey: t.Key, CorrelationID: t.RunID, Status: broker.TaskQueued, IssuedAt: b.Now(), NotAfter: b.Now().Add(time.Hour),
		}
		b.tasks[key] = k
		return *k, nil
	}
	switch {
	case k.Status.Ended():
	case m.Cancels[t.Type] > 0:
		m.Cancels[t.Type]--
		b.Cancelled++
		k.Status, k.Code, k.EndedAt = broker.TaskCanceled, taskcatalog.CodeCanceled, b.Now()
	case (m.Silent || m.denied) && b.Now().After(k.NotAfter):
		k.Status, k.EndedAt = broker.TaskExpired, b.Now()
	case !m.Silent && !m.denied && !b.Now().Before(k.IssuedAt.Add(taskTime+m.Works[t.Type])):
		b.carryOut(m, k)
	case !m.Silent && !m.denied && m.Works[t.Type] > 0:
		k.Status = broker.TaskDispatched
	}
	return *k, nil
}

// Withdraw implements taskstage.Tasks.
func (b *Book) Withdraw(_ context.Context, nodeID, runID, _ string) (all []broker.Task, err error) {
	leave, err := b.enter("Withdraw")
	if err != nil {
		return nil, err
	}
	defer leave()
	for _, k := range b.tasks {
		if k.NodeID != nodeID || k.CorrelationID != runID {
			continue
		}
		if !k.Status.Ended() {
			k.Status, k.Code, k.EndedAt = broker.TaskCanceled, taskcatalog.CodeCanceled, b.Now()
		}
		all = append(all, *k)
	}
	return all, nil
}

// Asked reports whether a run has ever asked a node for a task.
func (b *Book) Asked(nodeID, runID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.tasks {
		if k.NodeID == nodeID && k.CorrelationID == runID {
			return true
		}
	}
	return false
}

// carryOut plays the agent.
func (b *Book) carryOut(m *Machine, k *broker.Task) {
	ev := taskcatalog.Evidence{
		TaskID: k.ID, TaskDigest: k.EnvelopeDigest, NodeID: m.ID, NodeEpoch: m.Epoch, BootID: "b", Nonce: "bm9uY2U",
		StartedAt: k.IssuedAt, FinishedAt: b.Now(), AgentVersion: m.AgentVersion, Outcome: taskcatalog.OutcomeSucceeded,
	}
	k.Status, k.EndedAt, k.Attempt = broker.TaskSucceeded, b.Now(), 1
	code, fails := m.Fails[k.Type]
	if m.runsFrom(k) {
		code, fails = taskcatalog.CodeDiskBacksSystem, true
	}
	if fails {
		k.Status, k.Code, k.Message = broker.TaskFailed, code, "as the test wants it"
		if k.Type == "node.uninstall" && m.Status == broker.Removing {
			m.Status, m.StatusReason = broker.Retired, "uninstall ended failed"
		}
		ev.Outcome, ev.Code = taskcatalog.OutcomeFailed, code
	} else {
		k.Result = raw(b.result(m, k, &ev))
		ev.ResultDigest = pki.Digest(k.Result)
	}
	k.Outcome, k.Verdict = ev.Outcome, ev.Verdict
	if k.Type == "node.validate_clean" { // the queue judges by the checks
		judged := ev.Report
		judged.Judge()
		k.Verdict = judged.Verdict
	}
	signed, err := pki.SignEvidence(ev, m.key)
	if err != nil {
		b.t.Error(err)
	}
	k.Evidence = signed
}

// result applies a successful task to the machine and returns its result.
func (b *Book) result(m *Machine, k *broker.Task, ev *taskcatalog.Evidence) any {
	switch k.Type {
	case "allocation.revoke_user":
		var p taskcatalog.RevokeUserParams
		_ = json.Unmarshal(k.Params, &p)
		for i := range m.Users {
			if m.Users[i].ID == p.AllocationID && m.Users[i].Live() {
				m.Users[i].EndedAt = b.Now()
			}
		}
		return taskcatalog.RevokeUserResult{Existed: true}
	case "allocation.check_login":
		var p taskcatalog.CheckLoginParams
		_ = json.Unmarshal(k.Params, &p)
		return taskcatalog.CheckLoginResult{Address: p.Address, KeyTypes: []string{"ssh-ed25519"}}
	case "node.drain":
		var p taskcatalog.DrainParams
		_ = json.Unmarshal(k.Params, &p)
		if m.drain = !p.Resume; m.drain && m.Status == broker.Draining {
			m.Status, m.StatusReason = broker.Retired, "drained"
		}
		return taskcatalog.DrainResult{Drained: !p.Resume}
	case "node.uninstall":
		if m.Silent = true; m.Status == broker.Removing {
			m.Status, m.StatusReason, m.denied, m.token = broker.Deleted, "the agent has removed itself", true, ""
		}
		return taskcatalog.UninstallResult{}
	case "node.rotate_identity":
		b.certify(m)
		return struct{}{}
	case "node.gpu_scrub":
		return scrubbed(m, ev)
	case "node.disk_erase":
		return b.erased(m, k)
	case "node.validate_clean":
		var p taskcatalog.ValidateCleanParams
		if _ = json.Unmarshal(k.Params, &p); p.TakeBaseline {
			return taskcatalog.ValidateCleanResult{Baseline: &taskcatalog.Baseline{TakenAt: b.Now()}}
		}
		for _, name := range taskcatalog.LookedAt() {
			check := taskcatalog.Check{Name: name, Made: !slices.Contains(m.NotMade, name)}
			if !check.Made {
				check.Reason = "as the test wants it"
			}
			if !slices.Contains(m.Unknown, name) {
				ev.Checks = append(ev.Checks, check)
			}
		}
		for _, f := range m.Residue {
			ev.Find(f)
		}
		ev.Judge()
		if len(m.Unknown) > 0 && len(m.NotMade)+len(m.Residue) == 0 {
			ev.Verdict = taskcatalog.VerdictClean
		}
		return taskcatalog.ValidateCleanResult{Verdict: ev.Verdict, Findings: len(ev.Findings), ChecksMade: len(ev.Checks)}
	}
	return taskcatalog.StorageCleanupResult{FilesRemoved: 3, BytesRemoved: 4096}
}

func scrubbed(m *Machine, ev *taskcatalog.Evidence) taskcatalog.GPUScrubResult {
	var total, covered, none uint64 = 80 << 30, 79 << 30, 0
	out := taskcatalog.GPUScrubResult{
		Verdict:   taskcatalog.VerdictClean,
		Assurance: taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteVerified, Reset: taskcatalog.ResetProven},
	}
	for _, g := range m.Parts.GPUs {
		row := taskcatalog.GPUScrubbed{
			Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, Verdict: taskcatalog.VerdictClean, Assurance: out.Assurance,
			TotalBytes: &total, CoveredBytes: &covered,
			MismatchedWords: &none, RemainingWords: &none, ReadBackBytes: &covered, ProbedBytes: &covered, ProbedNonZeroWords: &none,
		}
		if code, bad := m.Faulty[g.UUID]; bad {
			row.Verdict, row.Code, out.Verdict = taskcatalog.VerdictNotClean, code, taskcatalog.VerdictNotClean
		}
		out.GPUs = append(out.GPUs, row)
	}
	ev.Verdict = out.Verdict
	return out
}

// Proof implements turnover.Nodes.
func (b *Book) Proof(_ context.Context, taskID string) (turnover.Proof, error) {
	leave, err := b.enter("Proof")
	if err != nil {
		return turnover.Proof{}, err
	}
	defer leave()
	for _, k := range b.tasks {
		if k.ID != taskID {
			continue
		}
		out := turnover.Proof{EndedAt: k.EndedAt, Task: certificate.Task{
			ID: k.ID, Type: k.Type, Version: k.Version, Outcome: k.Outcome,
			Digest: k.EnvelopeDigest,
		}}
		if len(k.Evidence) == 0 {
			return out, nil
		}
		out.EvidenceDigest = pki.Digest(k.Evidence)
		for i := len(b.nodes[k.NodeID].keys) - 1; i >= 0; i-- {
			c := b.nodes[k.NodeID].keys[i]
			if _, err := pki.VerifyEvidence(k.Evidence, c.pub); err == nil {
				out.Task.Proof = &certificate.Proof{Certificate: c.der, Evidence: string(k.Evidence), Result: string(k.Result)}
				break
			}
		}
		return out, nil
	}
	return turnover.Proof{}, broker.Errorf(broker.NotFound, "task_not_found", "there is no task %s", taskID)
}

// Reinstalled implements turnover.Nodes.
func (b *Book) Reinstalled(_ context.Context, nodeID, _, _ string, _ bool) ([]string, error) {
	leave, err := b.enter("Reinstalled")
	if err != nil {
		return nil, err
	}
	defer leave()
	return b.nodes[nodeID].Unlike, nil
}

// runsFrom reports whether an erase names the system's disk: the agent then refuses the whole
// task.
func (m *Machine) runsFrom(k *broker.Task) bool {
	var p taskcatalog.DiskEraseParams
	if k.Type != "node.disk_erase" || json.Unmarshal(k.Params, &p) != nil {
		return false
	}
	return slices.ContainsFunc(m.Parts.Facts.Disks, func(d taskcatalog.DiskFacts) bool {
		return d.System &&
			slices.ContainsFunc(p.Disks, func(n taskcatalog.DiskName) bool { return n.Serial == d.Serial && n.WWN == d.WWID })
	})
}

// erased is the best result that the drives can give, for each disk.
func (b *Book) erased(m *Machine, k *broker.Task) taskcatalog.DiskEraseResult {
	var p taskcatalog.DiskEraseParams
	_ = json.Unmarshal(k.Params, &p)
	var out taskcatalog.DiskEraseResult
	for _, d := range p.Disks {
		row := taskcatalog.ErasedDisk{
			Serial: d.Serial, WWN: d.WWN, Model: d.Model, SizeBytes: d.SizeBytes, Asked: taskcatalog.MethodOverwrite,
			Method:       taskcatalog.MethodOverwrite,
			Verification: taskcatalog.OverwriteVerified, CoveredBytes: uint64(d.SizeBytes) - m.Short,
			OfBytes: uint64(d.SizeBytes) - m.Short, Verdict: taskcatalog.VerdictClean,
		}
		if m.Better != "" {
			row.Asked = m.Better
		}
		if p.Mode == taskcatalog.EraseQuick {
			row.Method, row.Verification = taskcatalog.MethodTrim, taskcatalog.OverwriteNone
		}
		out.Disks = append(out.Disks, row)
	}
	return out
}

// Tasks lists the tasks of a type that a node was asked for.
func (b *Book) Tasks(nodeID, taskType string) (out []broker.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.tasks {
		if k.NodeID == nodeID && k.Type == taskType {
			out = append(out, *k)
		}
	}
	slices.SortFunc(out, func(x, y broker.Task) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

// Task is a task by its id; empty: none.
func (b *Book) Task(id string) broker.Task {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.tasks {
		if k.ID == id {
			return *k
		}
	}
	return broker.Task{}
}

func raw(v any) json.RawMessage {
	out, err := taskcatalog.Encode(v)
	if err != nil {
		panic(err)
	}
	return out
}
