package certificate

import (
	"reflect"
	"slices"

	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// Bounds of one certificate.
const (
	maxDevices = 512
	maxList    = 256 // downgrades, exposures, overrides, software, checks
	maxTasks   = 64
	maxOmitted = 1 << 30
)

var (
	name       = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)
	digestForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)
	modes      = []string{"soft_reset", "reimage", "full_decommission"}
	kinds      = []string{KindGPU, KindDisk, KindNIC}
)

// check refuses a certificate that is incomplete, contradicts itself, or claims more than its
// proofs.
func (c *Clean) check() error {
	for _, check := range []func() error{c.checkComplete, c.bounded, c.checkTimes, c.parts, c.attested, c.checkAdmissions} {
		if err := check(); err != nil {
			return err
		}
	}
	all, err := c.proofs()
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := c.checkDevices(p); err != nil {
			return err
		}
	}
	if err := c.validated(all); err != nil {
		return err
	}
	if !reflect.DeepEqual(c.Verdict, Judge(c)) {
		return refuse(CodeVerdictUnfounded, "cannot accept certificate: its verdict does not follow from its content")
	}
	return nil
}

// checkComplete requires the fields of every certificate.
func (c *Clean) checkComplete() error {
	lacks := func(what string) error {
		return refuse(CodeIncomplete, "cannot use certificate: the certificate has no valid %s", what)
	}
	switch {
	case !name.MatchString(c.ID):
		return lacks("certificate_id")
	case !c.Issuer.valid():
		return lacks("issuer")
	case !pki.ValidNodeID(c.Node.ID) || c.Node.Epoch < 1:
		return lacks("node")
	case !name.MatchString(c.Run.ID) || !slices.Contains(modes, c.Run.Mode):
		return lacks("run")
	case c.Allocation != nil && !name.MatchString(c.Allocation.ID), c.Allocation == nil && len(c.Earlier) > 0,
		slices.ContainsFunc(c.Earlier, func(a Allocation) bool { return !name.MatchString(a.ID) }):
		return lacks("allocation")
	case environments[c.Environment] == 0:
		return lacks("environment")
	case !c.Policy.valid():
		return lacks("policy")
	case !c.Validation.Verdict.Valid() || c.Validation.ChecksMade < 0:
		return lacks("validation")
	}
	return nil
}

// valid reports whether the policy is complete and lets nothing pass beyond the platform checks.
func (p *Policy) valid() bool {
	return environments[p.Environment] > 0 && p.DiskGrade.Valid() && p.Version != "" && onlyPlatform(p.ReportOnly)
}

// onlyPlatform requires checks below the operating system, sorted by name and without duplicates:
// no policy may let residue pass.
func onlyPlatform(checks []string) bool {
	for i, check := range checks {
		if !slices.Contains(taskcatalog.PlatformChecks(), check) || i > 0 && checks[i-1] >= check {
			return false
		}
	}
	return true
}

func (c *Clean) bounded() error {
	for _, l := range []struct {
		what      string
		has, most int
	}{
		{"devices", len(c.Devices), maxDevices},
		{"findings", len(c.Findings), taskcatalog.MaxFindings},
		{"tasks", len(c.Tasks), maxTasks},
		{"tasks not listed", c.TasksOmitted, maxOmitted},
		{"earlier allocations", len(c.Earlier), maxList},
		{"earlier allocations not listed", c.EarlierOmitted, maxOmitted},
		{"attestations", len(c.Attested), maxList},
		{"downgrades", len(c.Downgrades), maxList},
		{"exposures", len(c.Exposures), maxList},
		{"overrides", len(c.Overrides), maxList},
		{"parts not covered", len(c.NotCovered), maxList},
		{"programs", len(c.Software), maxList},
		{"checks not made", len(c.Validation.ChecksNotMade), maxList},
		{"checks that do not apply", len(c.Validation.NotApplicable), maxList},
		{"findings not listed", c.FindingsOmitted, maxOmitted},
	} {
		if l.has > l.most || l.has < 0 {
			return refuse(pki.CodeTooLarge, "cannot use certificate: %d %s, at most %d", l.has, l.what, l.most)
		}
	}
	return nil
}

// checkTimes requires the order of times: the key, the turnover, the last look, the certificate,
// its end; and the tenant's end before the certificate.
func (c *Clean) checkTimes() error {
	if c.Node.IdentitySince.IsZero() || c.Run.StartedAt.IsZero() ||
		c.FinishedAt.Before(c.Run.StartedAt) || c.FinishedAt.Before(c.Node.IdentitySince) ||
		c.IssuedAt.Before(c.FinishedAt) || !c.ValidUntil.After(c.IssuedAt) || c.Allocation != nil &&
		c.IssuedAt.Before(c.Allocation.ReleasedAt) {
		return refuse(CodeIncomplete, "cannot use certificate: its times are out of order (started, finished, issued, valid until)")
	}
	return nil
}

// parts requires each device and each task to be listed once, with an identity of its own.
func (c *Clean) parts() error {
	seen := map[string]bool{}
	once := func(kind, id string) bool {
		key := kind + " " + id
		was := seen[key]
		seen[key] = true
		return id == "" || !was
	}
	for _, d := range c.Devices {
		if d.Name() == "" || !slices.Contains(kinds, d.Kind) || !d.Verdict.Valid() || !d.Expected && !d.Found {
			return refuse(CodeIncomplete,
				"cannot use certificate: %s %q has no serial or uuid, no verdict, or is neither expected nor found", d.Kind, d.Name())
		}
		word := d.Method == MethodDestroyed || d.Method == MethodRemoved
		if word != (d.Attestation != "") || word && (d.Found || !digestForm.MatchString(d.Attestation)) {
			return refuse(CodeIncomplete,
				"cannot use certificate: %s %s is %s, which needs a person's attestation about a device that is not present", d.Kind,
				d.Name(), d.Method)
		}
		if !once(d.Kind+" uuid", d.UUID) || d.UUID == "" && !once(d.Kind+" serial", d.Serial) {
			return refuse(CodeIncomplete, "cannot use certificate: %s %s is listed twice", d.Kind, d.Name())
		}
	}
	for _, t := range c.Tasks {
		if !name.MatchString(t.ID) || !once("task", t.ID) || !digestForm.MatchString(t.Digest) || !t.Outcome.Valid() ||
			t.EvidenceDigest != "" && !digestForm.MatchString(t.EvidenceDigest) {
			return refuse(CodeIncomplete, "cannot use certificate: task %q is listed twice, or has no digest or outcome", t.ID)
		}
	}
	return nil
}

// checkAdmissions requires the admissions that every certificate must make.
func (c *Clean) checkAdmissions() error {
	for _, n := range NeverCovered {
		if !slices.Contains(c.NotCovered, n) {
			return refuse(CodeIncomplete, "cannot use certificate: the certificate does not state that %s is not covered", n.Part)
		}
	}
	if c.Environment == TenantOS && !slices.Contains(c.Exposures, rootkit) {
		return refuse(CodeIncomplete,
			"cannot use certificate: the certificate does not state that results from %s are no proof against a rootkit", TenantOS)
	}
	if c.selfInspected() && !slices.Contains(c.Exposures, selfInspectionExposure) {
		return refuse(CodeIncomplete,
			"cannot use certificate: the certificate does not state that the agent's check of itself in %s does not count", TenantOS)
	}
	for _, e := range c.reportedExposures() {
		if !slices.Contains(c.Exposures, e) {
			return refuse(CodeIncomplete, "cannot use certificate: the certificate does not state what its policy accepts of %s", e.Message)
		}
	}
	for _, d := range c.Downgrades {
		if d.Device == "" || d.AcceptedBy != "" && d.Because == "" {
			return refuse(CodeIncomplete, "cannot use certificate: a downgrade names no device, or was accepted without a reason")
		}
	}
	for _, o := range c.Overrides {
		if o.Stage == "" || o.By == "" || o.Reason == "" {
			return refuse(CodeIncomplete, "cannot use certificate: an override names no stage, nobody, or no reason")
		}
	}
	return nil
}
