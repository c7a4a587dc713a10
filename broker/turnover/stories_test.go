package turnover_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var reset = turnover.Request{Mode: turnover.SoftReset, ForceRelease: true}

func TestASoftResetHandsACleanNodeOutWithACertificate(t *testing.T) {
	w := newWorld(t)
	w.book.LetIn(node, "a-1", "acme", false)
	r := w.begin(reset)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
	want := []string{
		"disable_node succeeded", "drain_node succeeded", "rotate_node_identity succeeded", "cleanup_storage succeeded", "erase_local_disks skipped",
		"scrub_gpu succeeded", "validate_clean_node succeeded", "issue_clean_certificate succeeded", "enable_node succeeded",
	}
	if got := w.went(r.ID); !slices.Equal(got, want) {
		t.Errorf("it went %v", got)
	}
	report, err := w.book.Verify(w.state(r.ID).Issued)
	if err != nil || !report.Holds() {
		t.Fatalf("%+v, %v", report, err)
	}
	c := report.Clean
	if c.Node.Serial != "CH-"+node {
		t.Errorf("the certificate has the serial %q", c.Node.Serial)
	}
	if c.Environment != certificate.TenantOS || len(c.Devices) != 9 || c.Allocation == nil || c.Allocation.ID != "a-1" || c.Allocation.Tenant != "acme" || !c.Allocation.Forced {
		t.Errorf("%+v", c)
	}
	if len(c.Downgrades) != 1 || c.Downgrades[0].AcceptedBy != "policy" || c.Downgrades[0].Did != certificate.MethodFileDeletion {
		t.Errorf("downgrades %+v", c.Downgrades)
	}
	proofs := 0
	for _, task := range c.Tasks {
		if task.Proof != nil {
			proofs++
		}
	}
	// revoke, drain and rotation are listed by their digests.
	if len(c.Tasks) != 6 || proofs != 3 {
		t.Errorf("%d tasks, %d proofs", len(c.Tasks), proofs)
	}
	var told []string
	for _, m := range w.store.Outbox() {
		told = append(told, m.Type)
	}
	if !slices.Equal(told, []string{"node.decommission.started", "node.decommission.completed"}) {
		t.Errorf("told %v", told)
	}
}

// A tenant pays for the node: nothing changes, and the refusal names the tenant.
func TestATurnoverIsRefusedWhileATenantIsOnTheNode(t *testing.T) {
	for _, mode := range []turnover.Mode{turnover.SoftReset, turnover.StorageCleanup} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t)
			w.book.LetIn(node, "a-7", "acme", false)
			r := w.begin(turnover.Request{Mode: mode})
			if r.Failure == nil || r.Failure.Code != "allocation_live" || !strings.Contains(r.Failure.Message, "a-7 of tenant acme") {
				t.Errorf("%s: %+v", r.Status, r.Failure)
			}
			w.stands(broker.Active, false)
			for _, typ := range taskcatalog.All() {
				if n := len(w.book.Tasks(node, typ.Name)); n > 0 {
					t.Errorf("%d tasks %s were asked for", n, typ.Name)
				}
			}
			if !w.book.Machine(node).Users[0].Live() {
				t.Error("the tenant's user is gone")
			}
		})
	}
}

// One GPU lies: the node is out of use, nothing brings it back, and after the GPU's repair the
// run continues from there.
func TestAGPUThatIsNotCleanKeepsTheNodeFromUse(t *testing.T) {
	w := newWorld(t)
	liar := "GPU-" + node + "-3"
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Faulty = map[string]taskcatalog.Code{liar: taskcatalog.CodeGPUHardwareFault}
	})
	r := w.begin(reset)
	w.failed(r, "scrub_gpu", broker.GPUHardwareFault, "gpu_hw_fault")
	w.stands(broker.Quarantined, true)
	if !strings.Contains(r.Failure.Message, "7 of 8 GPUs are clean") || !strings.Contains(r.Failure.Message, liar) {
		t.Error(r.Failure.Message)
	}
	if err := w.book.Enable(ctx, node, r.ID, "", turnover.Lifts{}); err == nil {
		t.Error("the node was let in without a certificate")
	}
	w.book.Change(node, func(m *turnovertest.Machine) { m.Faulty = nil })
	if r = w.act(r.ID, chain.Resume); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
	if n := len(w.book.Tasks(node, "node.gpu_scrub")); n != 2 {
		t.Errorf("the GPUs were scrubbed %d times", n)
	}
}

// In every way in which a soft reset falls short, the node is never active.
func TestWhatFallsShortIsNeverHandedOut(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*world)
		stage   string
		class   broker.FailureClass
		code    string
		says    string // in the next action
	}{
		"something is left": {
			func(w *world) {
				w.book.Change(node, func(m *turnovertest.Machine) {
					m.Residue = []taskcatalog.Finding{{Check: "users", Subject: "mallory"}}
				})
			}, "validate_clean_node", broker.ResidueFound, "residue_found", "hostler task show",
		},
		"the tenant had root": {
			func(w *world) { w.book.LetIn(node, "a-1", "acme", true) },
			"issue_clean_certificate", broker.PolicyNotMet, "policy_not_met", "reimage",
		},
		"an earlier tenant had root, and the last one had not": {
			func(w *world) {
				w.book.LetIn(node, "a-1", "acme", true)
				w.book.Change(node, func(m *turnovertest.Machine) { m.Users[0].EndedAt = w.clock.Now() })
				w.clock.Advance(time.Hour)
				w.book.LetIn(node, "a-2", "emca", false)
			},
			"issue_clean_certificate", broker.PolicyNotMet, "policy_not_met", "reimage",
		},
		"the policy asks for a fresh system": {
			func(w *world) { w.policy.TurnoverEnvironment = "fresh_os" },
			"issue_clean_certificate", broker.PolicyNotMet, "policy_not_met", "reimage",
		},
		"files were deleted on a disk, and nobody accepts that": {
			func(w *world) { w.policy.AcceptSystemDisk = false },
			"issue_clean_certificate", broker.EraseDowngraded, "policy_not_met", "accept_system_disk",
		},
		"nothing was done to a second disk": {
			func(w *world) {
				w.book.Change(node, func(m *turnovertest.Machine) {
					m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "NVME-1", State: broker.DeviceFound})
				})
			}, "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met", "erase",
		},
		"a disk is missing": {
			func(w *world) {
				w.book.Change(node, func(m *turnovertest.Machine) { m.Parts.Devices[0].State = broker.DeviceMissing })
			}, "issue_clean_certificate", broker.PolicyNotMet, "policy_not_met", "put the device back",
		},
		"a disk is there that nobody expects": {
			func(w *world) {
				w.policy.DiskGrade = "none"
				w.book.Change(node, func(m *turnovertest.Machine) { m.Parts.Devices[0].State = broker.DeviceUnexpected })
			}, "issue_clean_certificate", broker.PolicyNotMet, "policy_not_met", "remove the device",
		},
		"its GPU is held": {
			func(w *world) {
				w.book.Change(node, func(m *turnovertest.Machine) {
					m.Faulty = map[string]taskcatalog.Code{"GPU-" + node + "-0": taskcatalog.CodeGPUHolderPresent}
				})
			}, "scrub_gpu", broker.GPUHolderPresent, "gpu_holder_present", "process",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.prepare(w)
			r := w.begin(reset)
			w.failed(r, test.stage, test.class, test.code)
			if !strings.Contains(r.NextAction, test.says) {
				t.Errorf("next action %q", r.NextAction)
			}
			w.stands(broker.Quarantined, true)
			if slices.Contains(w.went(r.ID), "enable_node succeeded") {
				t.Error("it was handed out")
			}
			if s := w.state(r.ID); test.stage == "issue_clean_certificate" {
				report, err := w.book.Verify(s.Issued)
				if err != nil || report.Holds() {
					t.Errorf("certificate %s: %+v, %v", s.Issued, report, err)
				}
			}
			// No operator's action on the run lets the node in.
			for _, a := range []chain.Action{chain.Resume, chain.Adopt, chain.RetryStage} {
				w.act(r.ID, a)
				w.stands(broker.Quarantined, true)
			}
		})
	}
}

// A tenant had root, and the node was handed out again by a policy that permitted that. By a stricter policy a soft
// reset gets no certificate, which would not name that tenant. No operator's action on the run lets the node in.
func TestRootFromBeforeTheLastHandOutIsNotForgotten(t *testing.T) {
	for _, permits := range []bool{true, false} {
		w := newWorld(t)
		w.policy.RootRequiresReimage = !permits
		w.book.LetIn(node, "a-1", "acme", true)
		w.book.Change(node, func(m *turnovertest.Machine) { m.Users = nil })
		r := w.begin(reset)
		if permits {
			w.stands(broker.Active, false)
			continue
		}
		w.failed(r, "issue_clean_certificate", broker.PolicyNotMet, "policy_not_met")
		if s := w.state(r.ID); s.Issued != "" || !strings.Contains(r.NextAction, "--mode reimage") {
			t.Errorf("certificate %q, next action %q", s.Issued, r.NextAction)
		}
		for _, a := range []chain.Action{chain.Resume, chain.Adopt, chain.RetryStage} {
			w.stands(broker.Quarantined, true)
			w.act(r.ID, a)
		}
		w.stands(broker.Quarantined, true)
	}
}

// A difference below the operating system, a failed inspection, or a check unknown to the agent
// keeps a node from use, unless the policy only reports the check.
func TestThePolicySaysWhatBelowTheSystemKeepsANodeFromUse(t *testing.T) {
	all := taskcatalog.PlatformChecks()
	version := func(m *turnovertest.Machine) {
		m.Residue = []taskcatalog.Finding{{Check: taskcatalog.CheckFirmware, Subject: "bios_version", NextAction: taskcatalog.ActionByHand}}
	}
	for name, test := range map[string]struct {
		policy []string
		finds  func(m *turnovertest.Machine)
		passes bool
	}{
		"a version differs": {nil, version, false},
		"a version differs, and other checks are only told": {[]string{"bmc_users", "sriov"}, version, false},
		"a version differs, which is only told":             {[]string{"firmware_versions"}, version, true},
		"a user too many, and versions are only told": {[]string{"firmware_versions"}, func(m *turnovertest.Machine) {
			version(m)
			m.Residue = append(m.Residue, taskcatalog.Finding{Check: "users", Subject: "mallory"})
		}, false},
		"the BMC could not be asked":                             {nil, func(m *turnovertest.Machine) { m.NotMade = []string{"bmc_users"} }, false},
		"the BMC could not be asked, which is only told":         {[]string{"bmc_users"}, func(m *turnovertest.Machine) { m.NotMade = []string{"bmc_users"} }, true},
		"mounts could not be read, and all below only told":      {all, func(m *turnovertest.Machine) { m.NotMade = []string{"mounts"} }, false},
		"an agent that knows none of it":                         {nil, func(m *turnovertest.Machine) { m.Unknown = all }, false},
		"an agent that knows none of it, which is only told":     {all, func(m *turnovertest.Machine) { m.Unknown = all }, true},
		"an agent that knows no mounts, and all below only told": {all, func(m *turnovertest.Machine) { m.Unknown = []string{"mounts"} }, false},
		"findings without room, and all below only told": {all, func(m *turnovertest.Machine) {
			version(m)
			m.Residue = slices.Repeat(m.Residue, taskcatalog.MaxFindings+1)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.policy.ReportOnly = test.policy
			w.book.Change(node, test.finds)
			r := w.begin(reset)
			if !test.passes {
				w.failed(r, "validate_clean_node", broker.ResidueFound, "residue_found")
				w.stands(broker.Quarantined, true)
				return
			}
			if r.Status != chain.Completed {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			w.stands(broker.Active, false)
			report, err := w.book.Verify(w.state(r.ID).Issued)
			if err != nil || !report.Holds() {
				t.Fatalf("%+v, %v", report, err)
			}
			c := report.Clean
			told := slices.ContainsFunc(c.Exposures, func(e certificate.Exposure) bool { return e.Code == certificate.ExposureReportedOnly })
			if c.Validation.Verdict == taskcatalog.VerdictClean || !told || len(c.Findings)+len(c.Validation.ChecksNotMade) == 0 {
				t.Errorf("the certificate hides what it lets pass: %+v %+v", c.Validation, c.Exposures)
			}
		})
	}
}

func TestASilentAgentIsToldWithTheWayOut(t *testing.T) {
	w := newWorld(t)
	w.policy.DrainTimeoutSeconds = 60
	w.book.Change(node, func(m *turnovertest.Machine) { m.Silent = true })
	r := w.begin(reset)
	w.failed(r, "drain_node", broker.AgentSilent, "agent_silent")
	w.stands(broker.Draining, true)
	if !strings.Contains(r.NextAction, "reimage the node") || !strings.Contains(r.NextAction, node) {
		t.Errorf("next action %q", r.NextAction)
	}
	w.book.Change(node, func(m *turnovertest.Machine) { m.Silent = false })
	if r = w.act(r.ID, chain.RetryStage); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
}

// Wherever a run is cancelled, its node stays out of use with a turnover owed.
func TestACancelledTurnoverLeavesTheNodeOutOfUse(t *testing.T) {
	steps := 0
	for {
		w := newWorld(t)
		w.book.LetIn(node, "a-1", "acme", false)
		r, err := w.start(reset)
		if err != nil {
			t.Fatal(err)
		}
		steps++
		for range steps {
			if worked, err := w.engine.Step(ctx); err != nil {
				t.Fatal(err)
			} else if !worked {
				w.clock.Advance(6 * time.Second)
			}
		}
		if r = w.run(r.ID); r.Status == chain.Completed {
			break
		}
		stage := r.Stage
		if r = w.act(r.ID, chain.Cancel); r.Status != chain.Cancelled {
			t.Fatalf("after %d steps at %s: %s at %s, %+v", steps, stage, r.Status, r.Stage, r.Failure)
		}
		if m := w.book.Machine(node); m.Status != broker.Quarantined || !m.TurnoverOwed {
			t.Fatalf("cancelled after %d steps at %s: the node is %s", steps, stage, m.Status)
		}
		// Another run brings the node back.
		if r = w.begin(reset); r.Status != chain.Completed {
			t.Fatalf("the next run, after %d steps at %s: %s at %s: %+v", steps, stage, r.Status, r.Stage, r.Failure)
		}
		w.stands(broker.Active, false)
	}
	if steps < 15 {
		t.Errorf("%d steps only", steps)
	}
}

func TestAStorageCleanupLeavesTheNodeInService(t *testing.T) {
	w := newWorld(t)
	r := w.begin(turnover.Request{Mode: turnover.StorageCleanup, StorageCleanup: "local"})
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Residue = []taskcatalog.Finding{{Check: "mounts", Subject: "/mnt/tenant"}}
	})
	r = w.begin(turnover.Request{Mode: turnover.StorageCleanup, StorageCleanup: "local"})
	w.failed(r, "validate_clean_node", broker.ResidueFound, "residue_found")
	w.stands(broker.Quarantined, true)
}

// Tenants are ended for billing and on the node before any byte is removed, and the node stays in
// service.
func TestAForcedStorageCleanupEndsWhoIsOnTheNode(t *testing.T) {
	w := newWorld(t)
	w.book.LetIn(node, "a-7", "acme", false)
	r := w.begin(turnover.Request{Mode: turnover.StorageCleanup, StorageCleanup: "local", ForceRelease: true})
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
	revoked, cleaned := w.book.Tasks(node, "allocation.revoke_user"), w.book.Tasks(node, "node.storage_cleanup")
	if len(w.book.Forced) != 1 || len(revoked) != 1 || len(cleaned) != 1 || cleaned[0].IssuedAt.Before(revoked[0].IssuedAt) {
		t.Errorf("forced %v, %d users ended, %d cleanups", w.book.Forced, len(revoked), len(cleaned))
	}
	if users := w.book.Machine(node).Users; len(users) != 1 || users[0].Live() {
		t.Errorf("on it: %+v", users)
	}
	if warned := w.state(r.ID).Warnings; len(warned) != 1 || !strings.Contains(warned[0], "a-7 of tenant acme") {
		t.Errorf("warnings %v", warned)
	}
}

// An open downgrade keeps the node out. An operator's acceptance for the disk and its treatment
// lets the node in with the run's next certificate, which names the operator.
func TestAnOperatorAcceptsADowngradeByTheNameOfItsDisk(t *testing.T) {
	w := newWorld(t)
	w.policy.AcceptSystemDisk = false
	r := w.begin(reset)
	w.failed(r, "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met")
	w.stands(broker.Quarantined, true)
	if !strings.Contains(r.NextAction, "hostler decommission accept-downgrade "+r.ID+" --device") {
		t.Errorf("next: %s", r.NextAction)
	}
	word := certificate.Downgrade{Device: "BOSS-" + node, Asked: certificate.MethodOverwrite, Did: certificate.MethodFileDeletion, AcceptedBy: "operator ada", Because: "the next tenant is the same project"}
	other, less := word, word
	other.Device, less.Did = "BOSS-else", certificate.MethodTrim
	for _, d := range []certificate.Downgrade{other, less} {
		w.book.Accept(r.ID, d)
	}
	w.book.Accept("r-else", word)
	r = w.act(r.ID, chain.RetryStage)
	w.failed(r, "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met")

	w.book.Accept(r.ID, word)
	if r = w.act(r.ID, chain.RetryStage); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
	report, err := w.book.Verify(w.state(r.ID).Issued)
	if err != nil || !report.Holds() {
		t.Fatalf("%+v, %v", report, err)
	}
	if all := report.Clean.Downgrades; len(all) != 1 || all[0].AcceptedBy != "operator ada" || all[0].Because != word.Because {
		t.Errorf("downgrades %+v", all)
	}
}

// A run waits out a temporary failure of the broker's own records.
func TestATurnoverWaitsForTheBrokersOwnRecords(t *testing.T) {
	for _, method := range []string{"Node", "Disable", "Occupants", "Ask", "Parts", "Proof", "Accepted", "Certify", "Enable"} {
		t.Run(method, func(t *testing.T) {
			w := newWorld(t)
			failed := 0
			w.book.Broken = func(m string) error {
				if m == method && failed < 3 {
					failed++
					return broker.Errorf(broker.Unavailable, "database_unavailable", "it is away")
				}
				return nil
			}
			if r := w.begin(reset); r.Status != chain.Completed || failed != 3 {
				t.Fatalf("%s at %s: %+v, failed %d times", r.Status, r.Stage, r.Failure, failed)
			}
			w.stands(broker.Active, false)
		})
	}
}

// A data disk meets the policy after an erase, and not after a mere trim.
func TestDisksAreErasedWhereThatIsAskedFor(t *testing.T) {
	second := func(w *world) {
		w.book.Change(node, func(m *turnovertest.Machine) {
			m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "NVME-1", State: broker.DeviceFound})
			m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "nvme0n1", Serial: "NVME-1", Model: "X", SizeBytes: 1 << 40})
		})
	}
	w := newWorld(t)
	second(w)
	req := reset
	req.Erase = taskcatalog.EraseSecure
	r := w.begin(req)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	report, err := w.book.Verify(w.state(r.ID).Issued)
	if err != nil || !report.Holds() {
		t.Fatalf("%+v, %v", report, err)
	}
	erased := 0
	for _, d := range report.Clean.Devices {
		if d.Serial == "NVME-1" && d.Method == certificate.MethodOverwrite && d.Expected {
			erased++
		}
	}
	asked := w.book.Tasks(node, "node.disk_erase")
	if erased != 1 || len(asked) != 1 || strings.Contains(string(asked[0].Params), "BOSS") {
		t.Errorf("%d rows, tasks %+v", erased, asked)
	}

	w = newWorld(t)
	second(w)
	req.Erase = taskcatalog.EraseQuick
	r = w.begin(req)
	w.failed(r, "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met")
	w.stands(broker.Quarantined, true)
	if got := w.state(r.ID).Shortfalls; !slices.Contains(got, string(certificate.CodeBelowPolicy)) || !slices.Contains(got, string(certificate.CodeDowngrade)) {
		t.Errorf("it falls short in %v", got)
	}
}

// A missing disk keeps the node from use, until a person states its fate: the certificate then
// includes the statement.
func TestAPartThatIsGoneTakesAPersonsWord(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "WD-99", Model: "WDC", State: broker.DeviceMissing})
	})
	r := w.begin(reset)
	w.failed(r, "issue_clean_certificate", broker.PolicyNotMet, "policy_not_met")
	w.stands(broker.Quarantined, true)
	if !strings.Contains(r.NextAction, "hostler certificate attest "+node) {
		t.Errorf("next: %s", r.NextAction)
	}
	digest := pki.Digest([]byte("the file"))
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Parts.Devices[len(m.Parts.Devices)-1].State = broker.DeviceRemoved // as it is from then on
		m.Parts.Attested = []certificate.Attested{{Digest: digest, Statement: certificate.Attestation{
			ID: "att-1", StatementOf: "person", Node: certificate.AttestedNode{ID: node, Hostname: "h"}, Device: certificate.AttestedPart{Kind: certificate.KindDisk, Serial: "WD-99"},
			Method: certificate.MethodDestroyed, Witness: "Bo Lind", By: "ada", IssuedAt: w.clock.Now(),
		}}}
	})
	if r = w.act(r.ID, chain.RetryStage); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
	report, err := w.book.Verify(w.state(r.ID).Issued)
	if err != nil || !report.Holds() {
		t.Fatalf("%v, %+v", err, report)
	}
	at := slices.IndexFunc(report.Clean.Devices, func(d certificate.Device) bool { return d.Serial == "WD-99" })
	if at < 0 {
		t.Fatal("the part is not on the certificate")
	}
	if d := report.Clean.Devices[at]; d.Found || !d.Expected || d.Attestation != digest || d.Method != certificate.MethodDestroyed || report.Clean.Attested[0].Statement.Witness != "Bo Lind" {
		t.Errorf("%+v", d)
	}
}

// What may still run on a node could change it after the look: no soft reset hands it out. Once the node has said that the
// operation ended, the same run goes on.
func TestNoSoftResetWhereAnOperationMayStillRun(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) { m.Unended = "op-7" })
	r := w.begin(reset)
	w.failed(r, "issue_clean_certificate", broker.PolicyNotMet, "operation_unended")
	w.stands(broker.Quarantined, true)
	if !strings.Contains(r.Failure.Message, "op-7") || !strings.Contains(r.NextAction, "--mode reimage") {
		t.Errorf("%s; next: %s", r.Failure.Message, r.NextAction)
	}
	w.book.Change(node, func(m *turnovertest.Machine) { m.Unended = "" })
	if r = w.act(r.ID, chain.RetryStage); r.Status != chain.Completed {
		t.Errorf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
}
