package certificate_test

import (
	"testing"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// Each fault gives one shortfall, with its code and its subject.
func TestEachLackIsToldByItsCode(t *testing.T) {
	w := newWorld(t)
	for name, row := range map[string]struct {
		change  func(c *certificate.Clean)
		code    taskcatalog.Code // none: meets the policy all the same
		subject string
	}{
		"nothing":             {func(*certificate.Clean) {}, "", ""},
		"a disk is missing":   {func(c *certificate.Clean) { c.Devices[1].Found = false }, certificate.CodeDeviceMissing, "S6ABNE0T"},
		"a NIC is missing":    {func(c *certificate.Clean) { c.Devices[2].Found = false }, certificate.CodeDeviceMissing, "0c:42:a1:00:00:01"},
		"a NIC too many":      {func(c *certificate.Clean) { c.Devices[2].Expected = false }, certificate.CodeDeviceUnexpected, "0c:42:a1:00:00:01"},
		"a disk is not clean": {func(c *certificate.Clean) { c.Devices[1].Verdict = taskcatalog.VerdictNotClean }, certificate.CodeDeviceNotClean, "S6ABNE0T"},
		"a disk that is smaller": {func(c *certificate.Clean) {
			c.Devices[1].Verdict, c.Devices[1].Code = taskcatalog.VerdictNotClean, taskcatalog.CodeDiskSmaller
		}, taskcatalog.CodeDiskSmaller, "S6ABNE0T"},
		"a disk that is called the system's": {func(c *certificate.Clean) {
			c.Devices[1].Verdict, c.Devices[1].Code, c.Devices[1].Method = taskcatalog.VerdictNotClean, taskcatalog.CodeDiskNotSystem, certificate.MethodNone
		}, taskcatalog.CodeDiskNotSystem, "S6ABNE0T"},
		"a disk of a network": {func(c *certificate.Clean) {
			c.Devices[1].Verdict, c.Devices[1].Code, c.Devices[1].Method = taskcatalog.VerdictInconclusive, taskcatalog.CodeDiskNotLocal, certificate.MethodNone
		}, taskcatalog.CodeDiskNotLocal, "S6ABNE0T"},
		"a disk is not known":   {func(c *certificate.Clean) { c.Devices[1].Verdict = taskcatalog.VerdictInconclusive }, certificate.CodeDeviceNotClean, "S6ABNE0T"},
		"a disk by no task":     {func(c *certificate.Clean) { c.Devices[1].TaskID = "" }, certificate.CodeDeviceUnproven, "S6ABNE0T"},
		"a proof not carried":   {func(c *certificate.Clean) { c.Tasks[0].Proof = nil }, certificate.CodeDeviceUnproven, "S6ABNE0T"},
		"a task that failed":    {func(c *certificate.Clean) { c.Tasks[0].Outcome = taskcatalog.OutcomeFailed }, certificate.CodeDeviceUnproven, "S6ABNE0T"},
		"a method nobody knows": {func(c *certificate.Clean) { c.Devices[1].Method = "magic" }, certificate.CodeBelowPolicy, "S6ABNE0T"},
		"files deleted": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].TaskID = certificate.MethodFileDeletion, "t-cleanup"
			c.Tasks = append(c.Tasks, certificate.Task{ID: "t-cleanup", Type: "node.storage_cleanup", Outcome: taskcatalog.OutcomeSucceeded, Proof: &certificate.Proof{}})
		}, certificate.CodeBelowPolicy, "S6ABNE0T"},
		"MAAS's quick erase": {func(c *certificate.Clean) { c.Devices[1].Method = certificate.MethodMAASQuickErase }, certificate.CodeBelowPolicy, "S6ABNE0T"},
		"purge is asked for": {func(c *certificate.Clean) {
			c.Policy.DiskGrade = certificate.GradePurge
			c.Devices[1].Method, c.Devices[1].Verification = certificate.MethodOverwrite, "verified"
		}, certificate.CodeBelowPolicy, "S6ABNE0T"},
		"an overwrite verified": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verification = certificate.MethodOverwrite, "verified"
		}, "", ""},
		"an overwrite unverified": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verification = certificate.MethodOverwrite, taskcatalog.OverwriteUnverified
		}, certificate.CodeUnverified, "S6ABNE0T"},
		"a key changed unverified": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verification = certificate.MethodNVMeFormatCrypto, taskcatalog.OverwriteUnverified
		}, certificate.CodeUnverified, "S6ABNE0T"},
		"an enhanced erase unverified": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verification = certificate.MethodATAEnhancedErase, taskcatalog.OverwriteUnverified
		}, certificate.CodeUnverified, "S6ABNE0T"},
		"a sanitize that only its log tells of": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verification = certificate.MethodNVMeSanitizeBlock, taskcatalog.OverwriteUnverified
		}, "", ""},
		"a sanitize that nobody looked at": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verification = certificate.MethodNVMeSanitizeBlock, taskcatalog.OverwriteNone
		}, certificate.CodeUnverified, "S6ABNE0T"},
		"a downgrade accepted": {func(c *certificate.Clean) {
			c.Devices[1].Method = certificate.MethodTrim
			c.Downgrades = []certificate.Downgrade{{Device: "S6ABNE0T", Did: certificate.MethodTrim, AcceptedBy: "alice", Because: "it goes back to the same tenant"}}
		}, "", ""},
		"another downgrade accepted": {func(c *certificate.Clean) {
			c.Devices[1].Method = certificate.MethodTrim
			c.Downgrades = []certificate.Downgrade{{Device: "S6ABNE0T", Did: certificate.MethodMkfs, AcceptedBy: "alice", Because: "r"}}
		}, certificate.CodeBelowPolicy, "S6ABNE0T"},
		"a downgrade of another disk": {func(c *certificate.Clean) {
			c.Devices[1].Method = certificate.MethodTrim
			c.Downgrades = []certificate.Downgrade{{Device: "X", Did: certificate.MethodTrim, AcceptedBy: "alice", Because: "r"}}
		}, certificate.CodeBelowPolicy, "S6ABNE0T"},
		"a downgrade not accepted": {func(c *certificate.Clean) {
			c.Downgrades = []certificate.Downgrade{{Device: "S6ABNE0T", Did: certificate.MethodNVMeSanitizeCrypt}}
		}, certificate.CodeDowngrade, "S6ABNE0T"},
		"a GPU not verified": {func(c *certificate.Clean) { c.Devices[0].Verification = taskcatalog.OverwriteUnverified }, certificate.CodeUnverified, "1650001"},
		"a GPU that need not be": {func(c *certificate.Clean) {
			c.Devices[0].Verification, c.Policy.GPUUnverified = taskcatalog.OverwriteUnverified, true
		}, "", ""},
		"a reset refused": {func(c *certificate.Clean) { c.Devices[0].Reset = taskcatalog.ResetRefused }, certificate.CodeResetUnproven, "1650001"},
		"a reset nobody asks for": {func(c *certificate.Clean) {
			c.Devices[0].Reset, c.Policy.GPUReset = taskcatalog.ResetRefused, false
		}, "", ""},
		"fresh_os is asked for": {func(c *certificate.Clean) {
			c.Environment, c.Policy.Environment, c.Policy.RootNeedsFreshOS = certificate.TenantOS, certificate.FreshOS, false
		}, certificate.CodeEnvironment, ""},
		"root, and no reimage": {func(c *certificate.Clean) { c.Environment = certificate.TenantOS }, certificate.CodeRootNeedsFreshOS, ""},
		"no root, no reimage": {func(c *certificate.Clean) {
			c.Environment, c.Allocation.HadRoot = certificate.TenantOS, false
		}, "", ""},
		"no tenant, no reimage":   {func(c *certificate.Clean) { c.Environment, c.Allocation = certificate.TenantOS, nil }, "", ""},
		"no validation":           {func(c *certificate.Clean) { c.Validation.TaskID = "" }, certificate.CodeNotValidated, ""},
		"a validation unproven":   {func(c *certificate.Clean) { c.Tasks[2].Proof = nil }, certificate.CodeNotValidated, "t-validate"},
		"inconclusive validation": {func(c *certificate.Clean) { c.Validation.Verdict = taskcatalog.VerdictInconclusive }, certificate.CodeNotValidated, "t-validate"},
		"a check not made": {func(c *certificate.Clean) {
			c.Validation.ChecksNotMade = []taskcatalog.Check{{Name: "bmc_users"}}
		}, certificate.CodeCheckNotMade, "bmc_users"},
		"a finding":           {func(c *certificate.Clean) { c.Findings = []taskcatalog.Finding{{Check: "users", Subject: "mallory"}} }, certificate.CodeFinding, "users"},
		"findings not listed": {func(c *certificate.Clean) { c.FindingsOmitted = 1 }, certificate.CodeFinding, ""},
		"gone on undrained":   {func(c *certificate.Clean) { c.Overrides = []certificate.Override{{Stage: "drain_node"}} }, "", ""},
		"gone on unlooked":    {func(c *certificate.Clean) { c.Overrides = []certificate.Override{{Stage: "validate_clean_node"}} }, certificate.CodeValidationSkipped, "validate_clean_node"},
		"no devices":          {func(c *certificate.Clean) { c.Devices = nil }, certificate.CodeNoDevices, ""},
		"a disk not erased": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verdict, c.Devices[1].TaskID = certificate.MethodNone, taskcatalog.VerdictInconclusive, ""
		}, certificate.CodeBelowPolicy, "S6ABNE0T"},
		"a disk by the word of another task": {func(c *certificate.Clean) { c.Devices[1].TaskID = "t-validate" }, certificate.CodeDeviceUnproven, "S6ABNE0T"},
		"a GPU by the word of another task":  {func(c *certificate.Clean) { c.Devices[0].TaskID = "t-erase" }, certificate.CodeDeviceUnproven, "1650001"},
		"files by the word of an erase": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Policy.DiskGrade = certificate.MethodFileDeletion, certificate.GradeNone
		}, certificate.CodeDeviceUnproven, "S6ABNE0T"},
		"a look by the word of another task": {func(c *certificate.Clean) { c.Validation.TaskID = "t-erase" }, certificate.CodeNotValidated, "t-erase"},
		"a disk that need not be": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verdict, c.Devices[1].TaskID = certificate.MethodNone, taskcatalog.VerdictInconclusive, ""
			c.Policy.DiskGrade = certificate.GradeNone
		}, "", ""},
		"a disk known to be dirty": {func(c *certificate.Clean) {
			c.Devices[1].Method, c.Devices[1].Verdict = certificate.MethodNone, taskcatalog.VerdictNotClean
			c.Policy.DiskGrade = certificate.GradeNone
		}, certificate.CodeDeviceNotClean, "S6ABNE0T"},
		"a disk destroyed": {func(c *certificate.Clean) {
			c.Devices[1].Found, c.Devices[1].Method, c.Devices[1].Attestation = false, certificate.MethodDestroyed, pki.Digest(nil)
		}, "", ""},
		"an exposure is no lack": {func(c *certificate.Clean) {
			c.Exposures = []certificate.Exposure{{Code: certificate.ExposureMAASToken}}
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := w.clean(gpu("GPU-1", "1650001"))
			row.change(c)
			v := certificate.Judge(c)
			switch {
			case row.code == "" && (!v.MeetsPolicy || len(v.Shortfalls) > 0):
				t.Errorf("falls short: %v", v.Shortfalls)
			case row.code != "" && (v.MeetsPolicy || len(v.Shortfalls) != 1 || v.Shortfalls[0].Code != row.code || v.Shortfalls[0].Subject != row.subject):
				t.Errorf("comes to %+v, want %s of %q", v, row.code, row.subject)
			}
		})
	}
}

func TestAMethodThatIsNotKnownHasNoGrade(t *testing.T) {
	if g := certificate.Method("nvme_format").Grade(); g != certificate.GradeNone { // without an erase setting
		t.Errorf("a plain format is %s", g)
	}
}

// The rows of a scrub: a baseline GPU outside the result is missing, a GPU outside the baseline
// is unexpected, and an instance belongs to its GPU.
func TestGPUsAreExpectedAgainstFound(t *testing.T) {
	slice := gpu("MIG-1", "")
	slice.Parent = "GPU-1"
	listed := gpu("GPU-4", "4")
	listed.Code, listed.Verdict = taskcatalog.CodeGPUMissing, taskcatalog.VerdictInconclusive
	rows := certificate.GPUs("t-1", baseline([]taskcatalog.GPUScrubbed{gpu("GPU-1", "1"), gpu("GPU-3", "3"), gpu("GPU-4", "4")}),
		taskcatalog.GPUScrubResult{GPUs: []taskcatalog.GPUScrubbed{slice, gpu("GPU-2", "2"), listed}}, taskcatalog.Report{})
	want := map[string][2]bool{"MIG-1": {true, true}, "GPU-2": {false, true}, "GPU-3": {true, false}, "GPU-4": {true, false}}
	for _, d := range rows {
		if w, ok := want[d.UUID]; !ok || w != [2]bool{d.Expected, d.Found} {
			t.Errorf("%s is expected %v and found %v", d.UUID, d.Expected, d.Found)
		}
		delete(want, d.UUID)
	}
	if len(want) > 0 {
		t.Errorf("no rows of %v", want)
	}
}
