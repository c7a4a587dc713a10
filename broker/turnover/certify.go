package turnover

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Certificates are issued by runs.
type Certificates interface {
	// Accepted are the downgrades that an operator accepted in a run, with name and reason.
	Accepted(ctx context.Context, runID string) ([]certificate.Downgrade, error)
	// Certify completes, signs and stores a certificate, once for its id.
	Certify(ctx context.Context, c *certificate.Clean) (certificate.Verdict, error)
}

// certify makes the certificate and judges it by the policy. An insufficient certificate is
// stored as well, and keeps the node from use.
func (c *Chains) certify(ctx context.Context, r *run) error {
	s := &r.State
	clean, err := c.statement(ctx, r)
	if err != nil {
		return err
	}
	if err := c.refuseEarlierRoot(ctx, r, clean); err != nil {
		return err
	}
	if err := c.refuseUnended(ctx, r); err != nil {
		return err
	}
	verdict, err := c.Nodes.Certify(ctx, clean)
	switch {
	case err != nil && taskcatalog.CodeOf(err, "") == "":
		return taskstage.Records(err) // a fault of the broker, not a statement of the node
	case taskcatalog.CodeOf(err, "") == pki.CodeTooLarge:
		return chain.Fail(inputError, "the turnover of node %s has more entries than fit in a certificate: %w", s.NodeID,
			err).With(string(pki.CodeTooLarge), nil)
	case err != nil:
		if err := c.Nodes.Quarantine(ctx, s.NodeID, "its turnover cannot be certified: "+err.Error()); err != nil {
			return taskstage.Records(err)
		}
		return chain.Fail(untrusted, "the evidence of node %s about its turnover does not verify: %w", s.NodeID,
			err).With(string(taskcatalog.CodeOf(err, "certificate_refused")), nil)
	}
	if s.certified(clean.ID, verdict); s.MeetsPolicy {
		r.Note(map[string]string{"certificate_id": clean.ID}, "certificate %s meets the policy", clean.ID)
		return nil
	}
	return c.refuseShortfall(ctx, r, verdict)
}

// refuseEarlierRoot stops a soft reset of a node on which a tenant had root before the node was last handed
// out, by a policy that permitted that. The certificate names the tenants since then alone, so it would meet a
// policy that asks for a reimage after root.
func (c *Chains) refuseEarlierRoot(ctx context.Context, r *run, clean *certificate.Clean) error {
	s := &r.State
	named := clean.Allocation != nil && clean.Allocation.HadRoot // the verdict says it
	if s.Mode != SoftReset || !clean.Policy.RootNeedsFreshOS || named {
		return nil
	}
	root, err := c.Nodes.RootSinceReimage(ctx, s.NodeID)
	if err != nil || !root {
		return taskstage.Records(err)
	}
	f := chain.Fail(short, "a tenant had root on node %s since its last reimage, and the policy asks for a reimage after root", s.NodeID).
		With("policy_not_met", map[string]any{"shortfalls": []string{string(certificate.CodeRootNeedsFreshOS)}}).
		Next("%s", strings.ReplaceAll("cancel this run and "+reimage, "NODE", s.NodeID))
	if err := c.Nodes.Quarantine(ctx, s.NodeID, f.Message); err != nil {
		return taskstage.Records(err)
	}
	return f
}

// codeUnended is the failure of a soft reset of a node on which an operation may still run.
const codeUnended = "operation_unended"

// refuseUnended stops a soft reset of a node on which an operation may still run: a process of it may change what was
// cleaned, after the look. Only a fresh system ends it in any case.
func (c *Chains) refuseUnended(ctx context.Context, r *run) error {
	s := &r.State
	if s.Mode != SoftReset {
		return nil
	}
	operation, err := c.Nodes.UnendedOperation(ctx, s.NodeID)
	if err != nil || operation == "" {
		return taskstage.Records(err)
	}
	f := chain.Fail(short, "operation %s may still run on node %s: the node got its task, and has not said that it ended", operation, s.NodeID).
		With(codeUnended, map[string]any{"operation_id": operation}).
		Next("%s", strings.ReplaceAll("cancel this run and "+reimage+", which ends the operation in any case", "NODE", s.NodeID))
	if err := c.Nodes.Quarantine(ctx, s.NodeID, f.Message); err != nil {
		return taskstage.Records(err)
	}
	return f
}

// certified notes a certificate of the run.
func (s *Turnover) certified(id string, v certificate.Verdict) {
	s.Issued, s.MeetsPolicy, s.Shortfalls = id, v.MeetsPolicy, nil
	for _, short := range v.Shortfalls {
		if code := string(short.Code); !slices.Contains(s.Shortfalls, code) {
			s.Shortfalls = append(s.Shortfalls, code)
		}
	}
}

// refuseShortfall keeps a node from use whose certificate does not meet the policy.
func (c *Chains) refuseShortfall(ctx context.Context, r *run, v certificate.Verdict) error {
	s := &r.State
	first := "no reason is given"
	if len(v.Shortfalls) > 0 {
		first = v.Shortfalls[0].Message
	}
	f := chain.Fail(short, "certificate %s of node %s does not meet the policy: %s%s", s.Issued, s.NodeID, first,
		more(len(v.Shortfalls)-1)).
		With("policy_not_met", map[string]any{"certificate_id": s.Issued, "shortfalls": s.Shortfalls})
	for _, h := range hints {
		if slices.Contains(s.Shortfalls, string(h.code)) {
			f.Class = cmp.Or(h.class, f.Class)
			f = f.Next("%s", strings.NewReplacer("NODE", s.NodeID, "RUN", r.ID).Replace(h.next))
			break
		}
	}
	if err := c.Nodes.Quarantine(ctx, s.NodeID, f.Message); err != nil {
		return taskstage.Records(err)
	}
	return f
}

func more(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more: hostler certificate get)", n)
}

// reimage is the advice for a node that needs a fresh system.
const reimage = "reimage the node (hostler decommission start NODE --mode reimage --reason R)"

// hints are the advice for shortfalls; the first match applies.
var hints = []struct {
	code  taskcatalog.Code
	class chain.Class
	next  string
}{
	{certificate.CodeRootNeedsFreshOS, "", "cancel this run and " + reimage + ": its tenant had root"},
	{certificate.CodeEnvironment, "", "cancel this run and " + reimage + ": the policy asks for a fresh system"},
	{
		certificate.CodeDeviceMissing, "",
		"put the device back, or record what happened to it (hostler certificate attest NODE --device SERIAL --method destroyed|removed --witness W), then retry",
	},
	{
		certificate.CodeDeviceUnexpected, "",
		"remove the device, or accept it (hostler node device accept NODE SERIAL --reason R), then retry",
	},
	{taskcatalog.CodeDiskNoSize, unerased, nextNoSize + "; then cancel this run and start another"},
	{taskcatalog.CodeDiskSmaller, unerased, nextSmaller("NODE") + "; then cancel this run and start another"},
	{
		taskcatalog.CodeDiskNotSystem, unerased,
		"find out why the node reports another system disk than is recorded; then reimage the node, or record the disk as a system disk (hostler node device accept NODE SERIAL --system --reason R)",
	},
	{
		taskcatalog.CodeDiskTransportDiffers, unerased,
		"find out what the disk is; if it is not the machine's own disk, record this (hostler node device accept NODE SERIAL --reason R), then retry",
	},
	{
		taskcatalog.CodeDiskRoleUnrecorded, unerased,
		"record which disks the system runs from (hostler node device accept NODE SERIAL --system --reason R), or reimage the node, then retry",
	},
	{
		taskcatalog.CodeDiskNotLocal, chain.Class(broker.EraseDowngraded),
		"detach the disk, or let the site's policy accept it (accept_network_disks), then cancel this run and start another",
	},
	{
		certificate.CodeBelowPolicy, chain.Class(broker.EraseDowngraded),
		"erase the disks, or let the site's policy accept less (disk_grade, accept_system_disk), then cancel this run and start another; or accept the one disk (hostler decommission accept-downgrade RUN --device SERIAL --reason R), then retry",
	},
	{
		certificate.CodeDowngrade, chain.Class(broker.EraseDowngraded),
		"erase all disks again, completely (--erase secure), replace the disk, or let the site's policy accept it (accept_erase_downgrade); then cancel this run and start another; or accept the one disk as it is (hostler decommission accept-downgrade RUN --device SERIAL --reason R), then retry",
	},
}

// counted are the stages whose tasks prove the certificate's content: all stages after the
// rotation of the identity. Tasks that a stage requests for another purpose prove nothing.
var counted = []string{"cleanup_storage", "erase_local_disks", "scrub_gpu", "validate_clean_node"}

// statement assembles the certificate. Its id derives from the attempt, so that a repeated call
// of the attempt finds the existing certificate.
func (c *Chains) statement(ctx context.Context, r *run) (*certificate.Clean, error) {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return nil, taskstage.Records(err)
	}
	parts, err := c.parts(ctx, r)
	if err != nil {
		return nil, err
	}
	out := &certificate.Clean{
		ID: fmt.Sprintf("%s.%d", r.ID, r.Attempt),
		Node: certificate.Node{
			ID: n.ID, Epoch: n.Epoch, Hostname: n.Hostname, Site: n.Site, SKU: n.SKU,
			Serial: parts.Facts.ChassisSerial, IdentitySince: n.IdentitySince,
		},
		Run:         certificate.Run{ID: r.ID, Mode: string(s.Mode), Reason: s.Reason, StartedAt: s.TakenAt},
		Environment: environment(s, n),
		Policy:      policyOf(s.Policy),
		Software:    []certificate.Software{{Name: "hostler-agent", Version: n.AgentVersion}},
		FinishedAt:  s.TakenAt,
	}
	out.ValidUntil = r.Now.Add(time.Duration(s.Policy.CertificateValidSeconds) * time.Second)
	for _, w := range r.Waived {
		out.Overrides = append(out.Overrides, certificate.Override{Stage: w.Stage, By: w.By, Reason: w.Reason, At: w.At})
	}
	out.Exposures = append(out.Exposures, exposures(s, n, out.Environment)...)
	if err := c.tenant(ctx, s, out, parts); err != nil {
		return nil, err
	}
	if err := c.tasks(ctx, s, out, parts); err != nil {
		return nil, err
	}
	if s.WipedAt.After(out.FinishedAt) {
		out.FinishedAt = s.WipedAt
	}
	disks(s, out, parts)
	acceptDowngrades(s.Policy.AcceptEraseDowngrade, out)
	gpus(out, parts)
	nics(out, parts)
	for _, a := range parts.Attested {
		out.Attest(a)
	}
	return out, c.accepted(ctx, r, out)
}

// environment is the system from which the node was inspected. It is a fresh system only if this
// run had MAAS take the machine back and deploy it anew, and the node enrolled after that.
func environment(s *Turnover, n broker.Node) certificate.Environment {
	if s.Mode == Reimage && !s.WipedAt.IsZero() && s.Machine.DeployedAt.After(s.WipedAt) && n.Epoch > s.Machine.Epoch {
		return certificate.FreshOS
	}
	return certificate.TenantOS // the tenant's system speaks
}

func policyOf(p broker.TurnoverPolicy) certificate.Policy {
	raw, _ := json.Marshal(p) // plain fields
	return certificate.Policy{
		Version: pki.Digest(raw), Environment: certificate.Environment(p.TurnoverEnvironment), RootNeedsFreshOS: p.RootRequiresReimage,
		DiskGrade: certificate.Grade(p.DiskGrade), GPUUnverified: p.GPUAllowUnverified, GPUReset: p.GPURequireReset,
		ReportOnly: slices.Sorted(slices.Values(p.ReportOnly)),
	}
}

// mostUsers is how many user removals a certificate lists.
const mostUsers = 32

// tasks adds the run's ended tasks, with the rows that follow from their results; a task without a
// proof or a result adds no rows. A user's removal proves nothing, and at most mostUsers removals
// are listed.
func (c *Chains) tasks(ctx context.Context, s *Turnover, out *certificate.Clean, parts Parts) error {
	users := 0
	for _, d := range s.Tasks {
		t, err := c.Nodes.Proof(ctx, d.ID)
		if err != nil {
			return taskstage.Records(err)
		}
		if t.EndedAt.After(out.FinishedAt) {
			out.FinishedAt = t.EndedAt
		}
		if d.Type == "allocation.revoke_user" {
			if users++; users > mostUsers {
				out.TasksOmitted++
				continue
			}
		}
		if d.For != "" || !slices.Contains(counted, d.Stage) || s.before(out, t.EndedAt) {
			t.Proof = nil
		}
		out.Tasks = append(out.Tasks, t.Task)
		if t.Proof == nil || t.Proof.Result == "" {
			continue
		}
		switch d.Stage {
		case "scrub_gpu":
			var result taskcatalog.GPUScrubResult
			if err := json.Unmarshal([]byte(t.Proof.Result), &result); err != nil {
				return chain.Fail(untrusted, "the result of task %s cannot be read", d.ID).With("bad_result", nil)
			}
			ev, err := signed(d.ID, t.Proof)
			if err != nil {
				return err
			}
			out.Devices = append(out.Devices, certificate.GPUs(d.ID, parts.GPUs, result, ev.Report)...)
		case "erase_local_disks":
			if err := erased(out, d.ID, t.Proof); err != nil {
				return err
			}
		case "validate_clean_node":
			if err := validated(out, d.ID, t.Proof); err != nil {
				return err
			}
		}
	}
	if out.Validation.Verdict == "" {
		out.Validation.Verdict = taskcatalog.VerdictInconclusive // nobody looked
	}
	return nil
}

// before reports whether work at a time proves nothing. For a reimage, this is work until MAAS had
// the machine back. For a removal, this is work before the end of the last allocation: if only MAAS
// ended the tenant's user, the tenant may still have been on the node.
func (s *Turnover) before(out *certificate.Clean, at time.Time) bool {
	switch s.Mode {
	case Reimage:
		return !s.WipedAt.IsZero() && !at.After(s.WipedAt)
	case FullDecommission:
		return out.Allocation != nil && at.Before(out.Allocation.ReleasedAt)
	}
	return false
}

// signed is the evidence that the node signed for a task.
func signed(taskID string, p *certificate.Proof) (*taskcatalog.Evidence, error) {
	cert, err := x509.ParseCertificate(p.Certificate)
	if err == nil {
		var ev *taskcatalog.Evidence
		if ev, err = pki.VerifyEvidence([]byte(p.Evidence), cert.PublicKey); err == nil {
			return ev, nil
		}
	}
	return nil, chain.Fail(untrusted, "the evidence of task %s does not verify: %w", taskID, err).With("evidence_wrong_key", nil)
}

// validated adds the signed results of the last inspection of the whole machine.
func validated(out *certificate.Clean, taskID string, p *certificate.Proof) error {
	ev, err := signed(taskID, p)
	if err != nil {
		return err
	}
	v := certificate.Validation{TaskID: taskID, Verdict: ev.Verdict}
	untold := taskcatalog.LookedAt()
	for _, check := range ev.Checks {
		untold = slices.DeleteFunc(untold, func(name string) bool { return name == check.Name })
		if check.NotApplicable {
			v.NotApplicable = append(v.NotApplicable, check)
		}
		if check.Made {
			v.ChecksMade++
		} else {
			v.ChecksNotMade = append(v.ChecksNotMade, check)
		}
	}
	for _, name := range untold { // an agent that does not know the check has not looked
		v.ChecksNotMade = append(v.ChecksNotMade, taskcatalog.Check{
			Name:   name,
			Reason: "the node's agent does not report it (update the agent)",
		})
		if v.Verdict == taskcatalog.VerdictClean {
			v.Verdict = taskcatalog.VerdictInconclusive
		}
	}
	out.Validation, out.Findings, out.FindingsOmitted = v, ev.Findings, ev.FindingsOmitted
	return nil
}
