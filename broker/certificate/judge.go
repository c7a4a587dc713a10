package certificate

import (
	"fmt"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// Policy is the site's policy at the start of the run.
type Policy struct {
	Version     string      `json:"version"`     // a number, or a digest
	Environment Environment `json:"environment"` // the minimum
	// RootNeedsFreshOS asks for fresh_os after a tenant had root.
	RootNeedsFreshOS bool  `json:"root_requires_reimage"`
	DiskGrade        Grade `json:"disk_grade"` // the minimum
	// GPUUnverified accepts a GPU without verification of its overwrite.
	GPUUnverified bool `json:"gpu_allow_unverified"`
	GPUReset      bool `json:"gpu_require_reset"`
	// ReportOnly are checks below the operating system that are reported and not counted.
	ReportOnly []string `json:"report_only,omitempty"`
}

// Verdict is the result of the policy applied to the other fields.
type Verdict struct {
	MeetsPolicy bool     `json:"meets_policy"`
	Shortfalls  []Remark `json:"shortfalls"`
}

// Remark is a fact that a reader of an authentic certificate must know.
type Remark struct {
	Code    taskcatalog.Code `json:"code"`
	Subject string           `json:"subject,omitempty"` // a device, a check, a stage
	Message string           `json:"message"`
}

// Judge compares the findings with the policy. Judge is the only decision: a broker that hands
// out a node, and a verifier of the certificate, get the same result.
func Judge(c *Clean) Verdict {
	j := judge{c: c, found: []Remark{}}
	j.environment()
	if len(c.Devices) == 0 {
		j.addShortfall(CodeNoDevices, "", "nothing is known of what the machine is made of")
	}
	for i := range c.Devices {
		j.device(&c.Devices[i])
	}
	for _, d := range c.Downgrades {
		if d.AcceptedBy == "" {
			j.addShortfall(CodeDowngrade, d.Device, "%s was asked for and %s was done, which nobody has accepted", d.Asked, d.Did)
		}
	}
	j.validation()
	return Verdict{MeetsPolicy: len(j.found) == 0, Shortfalls: j.found}
}

type judge struct {
	c     *Clean
	found []Remark
}

func (j *judge) addShortfall(code taskcatalog.Code, subject, format string, args ...any) {
	j.found = append(j.found, Remark{code, subject, taskcatalog.Clean(fmt.Sprintf(format, args...), taskcatalog.MaxText)})
}

func (j *judge) environment() {
	c := j.c
	if environments[c.Environment] < environments[c.Policy.Environment] {
		j.addShortfall(CodeEnvironment, "", "it was looked at in %s and the policy asks for %s", c.Environment, c.Policy.Environment)
	}
	if c.Policy.RootNeedsFreshOS && c.Allocation != nil && c.Allocation.HadRoot && environments[c.Environment] < environments[FreshOS] {
		j.addShortfall(CodeRootNeedsFreshOS, "", "the tenant had root and the machine was not reimaged since")
	}
}

func (j *judge) device(d *Device) {
	name := d.Name()
	switch {
	case !d.Found && d.Attestation != "":
		return // a person answers for the device
	case !d.Found:
		j.addShortfall(CodeDeviceMissing, name, "%s %s is expected and was not found", d.Kind, name)
		return
	case !d.Expected:
		j.addShortfall(CodeDeviceUnexpected, name, "%s %s was found and is not expected", d.Kind, name)
	}
	if d.Kind == KindNIC {
		return
	}
	if d.Kind == KindDisk && d.Method == MethodNone && d.Verdict != taskcatalog.VerdictNotClean {
		j.judgeGrade(d) // no treatment is claimed for the disk
		return
	}
	if d.Verdict != taskcatalog.VerdictClean {
		j.addShortfall(d.specificCode(CodeDeviceNotClean), name, "%s %s is %s%s", d.Kind, name, d.Verdict, d.explanation())
		return
	}
	if !j.proven(d.TaskID, d.provenBy()) && !(byMAAS(d.Method) && j.accepted(d)) {
		j.addShortfall(CodeDeviceUnproven, name, "nothing that the node has signed says that %s %s is clean", d.Kind, name)
	}
	switch d.Kind {
	case KindDisk:
		j.judgeGrade(d)
		if counts(d.Method) && !verified(d) && !j.accepted(d) {
			j.addShortfall(CodeUnverified, name, "%s on disk %s was not verified", d.Method, name)
		}
	default:
		if d.Verification != taskcatalog.OverwriteVerified && !j.c.Policy.GPUUnverified {
			j.addShortfall(CodeUnverified, name, "%s on %s %s was not verified", d.Method, d.Kind, name)
		}
		if j.c.Policy.GPUReset && d.Reset != taskcatalog.ResetProven {
			j.addShortfall(CodeResetUnproven, name, "the reset of %s %s is %s and the policy asks for proof", d.Kind, name, d.Reset)
		}
	}
}

// counts reports whether a method has a grade above none.
func counts(m Method) bool { return GradeNone.Below(m.Grade()) }

// verified reports whether a disk was read after its erase and nothing was left. A drive that
// sanitizes itself keeps a log of the outcome, and the agent reads the log. For any other erase,
// only the reading shows that the erase took place.
func verified(d *Device) bool {
	switch d.Method {
	case MethodNVMeSanitizeBlock, MethodNVMeSanitizeCrypt, MethodNVMeSanitizeWrite:
		return d.Verification == taskcatalog.OverwriteVerified || d.Verification == taskcatalog.OverwriteUnverified
	}
	return d.Verification == taskcatalog.OverwriteVerified
}

// byMAAS reports whether MAAS applied the method. The broker then has MAAS's statement and no
// signature of a node, so the method counts only after an acceptance.
func byMAAS(m Method) bool {
	return m == MethodMAASSecureErase || m == MethodMAASQuickErase || m == MethodMkfs
}

// judgeGrade compares a disk's treatment with the required grade.
func (j *judge) judgeGrade(d *Device) {
	if d.Method.Grade().Below(j.c.Policy.DiskGrade) && !j.accepted(d) {
		j.addShortfall(d.specificCode(CodeBelowPolicy), d.Name(), "%s on disk %s has the grade %s and the policy asks for %s%s", d.Method,
			d.Name(), d.Method.Grade(), j.c.Policy.DiskGrade, d.explanation())
	}
}

// recordCodes lists the codes for a difference between a disk and its record: a shortfall from such
// a difference has the same code.
var recordCodes = []taskcatalog.Code{
	taskcatalog.CodeDiskSmaller, taskcatalog.CodeDiskNotSystem, taskcatalog.CodeDiskRoleUnrecorded,
	taskcatalog.CodeDiskTransportDiffers, taskcatalog.CodeDiskNotLocal, taskcatalog.CodeDiskNoSize,
}

// specificCode is the device's own code if it is more specific than code.
func (d *Device) specificCode(code taskcatalog.Code) taskcatalog.Code {
	if d.Kind == KindDisk && slices.Contains(recordCodes, d.Code) {
		return d.Code
	}
	return code
}

func (d *Device) explanation() string {
	if d.specificCode("") == "" {
		return ""
	}
	return ": " + d.Message
}

// proven reports whether a task of the type succeeded, by the node's signature.
func (j *judge) proven(taskID, typ string) bool {
	return slices.ContainsFunc(j.c.Tasks, func(t Task) bool {
		return t.ID == taskID && t.Type == typ && t.Proof != nil && t.Outcome == taskcatalog.OutcomeSucceeded
	})
}

// provenBy is the type of task that can prove a device's treatment.
func (d *Device) provenBy() string {
	switch {
	case d.Kind == KindGPU:
		return "node.gpu_scrub"
	case d.Method == MethodFileDeletion:
		return "node.storage_cleanup"
	}
	return "node.disk_erase"
}

// accepted reports whether a downgrade of the disk was accepted.
func (j *judge) accepted(d *Device) bool {
	return slices.ContainsFunc(j.c.Downgrades, func(g Downgrade) bool {
		return (g.Device == d.Serial || g.Device == d.UUID) && g.Did == d.Method && g.AcceptedBy != ""
	})
}

func (j *judge) validation() {
	v := &j.c.Validation
	if v.Verdict != taskcatalog.VerdictClean && !j.c.Passes() || !j.proven(v.TaskID, "node.validate_clean") {
		j.addShortfall(CodeNotValidated, v.TaskID, "no look at the whole machine that the node has signed came to clean")
	}
	for _, c := range v.ChecksNotMade {
		if !j.c.ignorable(c.Name) {
			j.addShortfall(CodeCheckNotMade, c.Name, "the check %s was not made", c.Name)
		}
	}
	for _, f := range j.c.Findings {
		if !j.c.reportsOnly(f.Check) {
			j.addShortfall(CodeFinding, f.Check, "%s: %s", f.Check, f.Subject)
		}
	}
	if n := j.c.FindingsOmitted; n > 0 {
		j.addShortfall(CodeFinding, "", "%d findings are not listed", n)
	}
	for _, o := range j.c.Overrides {
		if slices.Contains(neverOverridden, o.Stage) {
			j.addShortfall(CodeValidationSkipped, o.Stage, "%s was overridden, and it never may be", o.Stage)
		}
	}
}

// neverOverridden lists the stages that prove the result. A run may skip a drain or a cleanup,
// but never an inspection.
var neverOverridden = []string{"scrub_gpu", "validate_clean_node", "issue_clean_certificate"}
