package certificate

import (
	"crypto/x509"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// proven is a proof that holds.
type proven struct {
	task     *Task
	evidence *taskcatalog.Evidence
}

// proofs checks every proof against the node, the epoch, the key, the task, the result and the
// time of this turnover.
func (c *Clean) proofs() ([]proven, error) {
	var all []proven
	for i := range c.Tasks {
		t := &c.Tasks[i]
		if t.Proof == nil {
			continue
		}
		ev, err := c.proof(t)
		if err != nil {
			return nil, err
		}
		all = append(all, proven{t, ev})
	}
	return all, nil
}

func (c *Clean) proof(t *Task) (*taskcatalog.Evidence, error) {
	wrong := func(code taskcatalog.Code, format string, args ...any) error {
		return refuse(code, "cannot accept the evidence of task %s: %s", t.ID, taskcatalog.Clean(fmt.Sprintf(format, args...), 500))
	}
	cert, err := x509.ParseCertificate(t.Proof.Certificate)
	if err != nil {
		return nil, wrong(CodeEvidenceWrongKey, "the accompanying node certificate cannot be read")
	}
	id, err := pki.NodeIdentityOf(cert)
	switch {
	case err != nil:
		return nil, wrong(CodeEvidenceWrongKey, "%v", err)
	case id.NodeID != c.Node.ID:
		return nil, wrong(CodeEvidenceWrongNode, "the evidence is from node %s, and the certificate is about node %s", id.NodeID, c.Node.ID)
	case id.Epoch != c.Node.Epoch:
		return nil,
			wrong(CodeEvidenceWrongEpoch, "the evidence is from enrolment %d of the node, and the certificate is about enrolment %d",
				id.Epoch, c.Node.Epoch)
	}
	if certified := cert.NotBefore.Add(pki.Backdate); certified.Before(c.Node.IdentitySince.Truncate(time.Second)) {
		return nil, wrong(CodeEvidenceKeyTooOld, "its key was certified at %s, before the node's identity was changed at %s",
			stamp(certified), stamp(c.Node.IdentitySince))
	}
	ev, err := pki.VerifyEvidence([]byte(t.Proof.Evidence), cert.PublicKey)
	if err != nil {
		return nil, wrong(CodeEvidenceWrongKey, "the node's key does not verify it: %v", err)
	}
	switch {
	case pki.Digest([]byte(t.Proof.Evidence)) != t.EvidenceDigest:
		return nil, wrong(CodeEvidenceWrongTask, "its digest is not %s", t.EvidenceDigest)
	case ev.NodeID != c.Node.ID:
		return nil, wrong(CodeEvidenceWrongNode, "the evidence names node %s, and the certificate is about node %s", ev.NodeID, c.Node.ID)
	case ev.NodeEpoch != c.Node.Epoch:
		return nil, wrong(CodeEvidenceWrongEpoch, "the evidence names enrolment %d of the node, and the certificate is about enrolment %d",
			ev.NodeEpoch, c.Node.Epoch)
	case ev.TaskID != t.ID, ev.TaskDigest != t.Digest, ev.Outcome != t.Outcome:
		return nil, wrong(CodeEvidenceWrongTask, "the evidence is about task %s with the outcome %s", ev.TaskID, ev.Outcome)
	case resultDigest(t.Proof.Result) != ev.ResultDigest:
		return nil, wrong(CodeEvidenceWrongResult, "the accompanying result is not the result that the node signed")
	case ev.StartedAt.Before(c.Run.StartedAt.Add(-taskcatalog.ClockSkew)):
		return nil, wrong(CodeEvidenceStale, "the evidence is from %s, and the turnover began at %s", stamp(ev.StartedAt),
			stamp(c.Run.StartedAt))
	case c.Allocation != nil && ev.StartedAt.Before(c.Allocation.ReleasedAt.Add(-taskcatalog.ClockSkew)):
		return nil, wrong(CodeEvidenceStale, "the evidence is from %s, and the tenant was on the machine until %s", stamp(ev.StartedAt),
			stamp(c.Allocation.ReleasedAt))
	case ev.FinishedAt.After(c.FinishedAt.Add(taskcatalog.ClockSkew)), ev.FinishedAt.Before(ev.StartedAt):
		return nil, wrong(CodeEvidenceLate, "the evidence is from %s, and the turnover's checks ended at %s", stamp(ev.FinishedAt),
			stamp(c.FinishedAt))
	}
	return ev, nil
}

func resultDigest(result string) string {
	if result == "" {
		return ""
	}
	return pki.Digest([]byte(result))
}

// rows maps a task type to the devices in its result. A type outside the table proves only that a
// device's task ran, and no figures.
var rows = map[string]func(taskID string, result []byte, report taskcatalog.Report) ([]Device, error){
	"node.gpu_scrub": func(taskID string, result []byte, report taskcatalog.Report) ([]Device, error) {
		var r taskcatalog.GPUScrubResult // a later agent's result may have more fields
		if err := json.Unmarshal(result, &r); err != nil {
			return nil, err
		}
		return measured(taskID, r, report), nil
	},
	"node.disk_erase": func(taskID string, result []byte, _ taskcatalog.Report) ([]Device, error) {
		var r taskcatalog.DiskEraseResult
		if err := json.Unmarshal(result, &r); err != nil {
			return nil, err
		}
		return Disks(taskID, r), nil
	},
}

// checkDevices refuses devices that differ from the node's signed result, or are better, and
// signed devices that the certificate leaves out.
func (c *Clean) checkDevices(p proven) error {
	derive := rows[p.task.Type]
	if derive == nil {
		return nil
	}
	var signed []Device // none, where the node has signed no result
	if p.task.Proof.Result != "" {
		var err error
		if signed, err = derive(p.task.ID, []byte(p.task.Proof.Result), p.evidence.Report); err != nil {
			return refuse(CodeEvidenceWrongResult, "cannot accept the evidence of task %s: its result cannot be read", p.task.ID)
		}
	}
	tidy(&signed)
	for i := range c.Devices {
		d := &c.Devices[i]
		if d.TaskID == p.task.ID && d.Found && !slices.ContainsFunc(signed, func(s Device) bool { return d.supportedBy(&s) }) {
			return refuse(CodeDeviceContradicted,
				"cannot accept certificate: its statement about %s %s differs from the finding of task %s", d.Kind, d.Name(), p.task.ID)
		}
	}
	for i := range signed {
		s := &signed[i]
		if s.Found && !slices.ContainsFunc(c.Devices, func(d Device) bool { return d.supportedBy(s) }) {
			return refuse(CodeDeviceContradicted,
				"cannot accept certificate: task %s found %s %s, which the certificate does not list as found", p.task.ID, s.Kind, s.Name())
		}
	}
	return c.downgraded(p)
}

// supportedBy reports whether d claims no more than the signed row s. The broker may set Expected,
// and may lower the verdict with a reason.
func (d *Device) supportedBy(s *Device) bool {
	same := *d
	same.Expected, same.Code, same.Message, same.Verdict = s.Expected, s.Code, s.Message, s.Verdict
	return reflect.DeepEqual(same, *s) && !d.Verdict.Better(s.Verdict)
}

// validated compares the validation with the node's signed report.
func (c *Clean) validated(all []proven) error {
	v := &c.Validation
	at := slices.IndexFunc(all, func(p proven) bool { return p.task.ID == v.TaskID })
	if at < 0 {
		return nil // Judge reports the missing proof
	}
	if p := all[at]; p.task.Type != "node.validate_clean" {
		return refuse(CodeEvidenceWrongTask, "cannot accept certificate: task %s, which the certificate names as its validation, is a %s",
			v.TaskID, p.task.Type)
	}
	report := all[at].evidence.Report
	tidy(&report)
	if v.Verdict.Better(report.Verdict) {
		return refuse(CodeVerdictUnfounded, "cannot accept certificate: its validation is %s, and the node signed %q", v.Verdict,
			report.Verdict)
	}
	for _, name := range requiredChecks {
		is := func(check taskcatalog.Check) bool { return check.Name == name }
		if !slices.ContainsFunc(report.Checks, is) && !slices.ContainsFunc(v.ChecksNotMade, is) {
			return refuse(CodeFindingHidden, "cannot accept certificate: the certificate does not state the outcome of the check %s", name)
		}
	}
	made := 0
	for _, check := range report.Checks {
		if check.NotApplicable && !slices.Contains(v.NotApplicable, check) {
			return refuse(CodeFindingHidden, "cannot accept certificate: the check %s did not apply, which the certificate does not state",
				check.Name)
		}
		if check.Made {
			made++
		} else if !slices.Contains(v.ChecksNotMade, check) {
			return refuse(CodeFindingHidden, "cannot accept certificate: the check %s was not made, which the certificate does not state",
				check.Name)
		}
	}
	for _, check := range v.NotApplicable {
		if !slices.Contains(report.Checks, check) || !check.NotApplicable {
			return refuse(CodeVerdictUnfounded, "cannot accept certificate: the node has not signed that the check %s does not apply",
				check.Name)
		}
	}
	if v.ChecksMade > made {
		return refuse(CodeVerdictUnfounded, "cannot accept certificate: the certificate counts %d checks, and %d were made", v.ChecksMade,
			made)
	}
	for _, f := range report.Findings {
		if !slices.ContainsFunc(c.Findings, func(g taskcatalog.Finding) bool { return reflect.DeepEqual(f, g) }) {
			return refuse(CodeFindingHidden, "cannot accept certificate: the certificate does not list the finding %s: %s", f.Check,
				f.Subject)
		}
	}
	if c.FindingsOmitted < report.FindingsOmitted {
		return refuse(CodeFindingHidden, "cannot accept certificate: %d findings are not listed, and the certificate counts %d",
			report.FindingsOmitted, c.FindingsOmitted)
	}
	return nil
}

// requiredChecks lists the checks that every certificate of this version mentions: the checks that
// existed when the version was fixed. Later agents make further checks.
var requiredChecks = []string{
	"users", "processes", "jobs", "ipc", "files", "homes", "temporary", "scratch", "containers", "dumps", "swap", "hugepages",
	"block_devices",
	"namespaces", "mounts", "listeners", "authorized_keys", "login_files", "cron", "units", "packages", "programs", "setuid", "config",
	"preload",
	"pam", "sudoers", "ssh_server", "udev", "modprobe", "modules", "bpf", "firewall", "kernel_hooks", "boot", "cloud_init", "inventory",
	"gpu",
}

// selfInspected reports whether the last inspection included the agent's check, made or not,
// from inside the tenant's system. An invalid proof counts as no.
func (c *Clean) selfInspected() bool {
	if c.Environment == TenantOS && includesAgent(c.Validation.ChecksNotMade) {
		return true
	}
	i := slices.IndexFunc(c.Tasks, func(t Task) bool { return t.ID == c.Validation.TaskID && t.Proof != nil })
	if i < 0 || c.Environment != TenantOS {
		return false
	}
	ev, err := c.proof(&c.Tasks[i])
	return err == nil && includesAgent(ev.Checks)
}

// includesAgent reports whether the checks include the agent's. Older agents leave it out.
func includesAgent(checks []taskcatalog.Check) bool {
	return slices.ContainsFunc(checks, func(check taskcatalog.Check) bool { return check.Name == taskcatalog.CheckAgent })
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
