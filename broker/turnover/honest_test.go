package turnover_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// certified is the certificate of a run, as any reader sees it.
func (w *world) certified(id string) *certificate.Clean {
	w.t.Helper()
	report, err := w.book.Verify(w.state(id).Issued)
	if err != nil || report.Clean == nil {
		w.t.Fatalf("certificate %q of run %s: %v", w.state(id).Issued, id, err)
	}
	return report.Clean
}

// short requires that a certificate has a shortfall with a code and a subject.
func short(t *testing.T, c *certificate.Clean, code taskcatalog.Code, subject string) {
	t.Helper()
	if c.Verdict.MeetsPolicy || !slices.ContainsFunc(c.Verdict.Shortfalls, func(r certificate.Remark) bool { return r.Code == code && r.Subject == subject }) {
		t.Errorf("it meets the policy: %v, falls short in %+v; want %s of %q", c.Verdict.MeetsPolicy, c.Verdict.Shortfalls, code, subject)
	}
}

// rowOf is the row of a device.
func rowOf(t *testing.T, c *certificate.Clean, name string) certificate.Device {
	t.Helper()
	var found []certificate.Device
	for _, d := range c.Devices {
		if d.Serial == name || d.UUID == name {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d rows of %s: %+v", len(found), name, c.Devices)
	}
	return found[0]
}

// A site with the defaults hands out a machine that MAAS erased with its drives' own erase; the
// certificate states MAAS's erase, and the policy accepts it.
func TestANewSiteReimagesWithMAASsSecureErase(t *testing.T) {
	s := newSite(t)
	s.book.LetIn(s.id, "a-1", "acme", true)
	r := s.turnOver(reimage)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	s.is(broker.Active, false)
	c := s.certified(r.ID)
	disk := rowOf(t, c, "BOSS-"+s.id)
	if disk.Method != certificate.MethodMAASSecureErase || disk.Verification != taskcatalog.OverwriteNone || len(c.Downgrades) != 1 {
		t.Fatalf("%+v, downgrades %+v", disk, c.Downgrades)
	}
	if d := c.Downgrades[0]; d.AcceptedBy != "policy" || d.Because != "accept_maas_erase" || d.Asked != certificate.MethodMAASSecureErase || d.Did != d.Asked {
		t.Errorf("%+v", d)
	}
}

// MAAS could not erase the disks, and released the machine without an erase: each disk's row
// states so, and no unrelated setting accepts this.
func TestAnEraseThatMAASCouldNotMakeLetsNoDiskPass(t *testing.T) {
	for _, grade := range []string{"clear", "none"} {
		t.Run(grade, func(t *testing.T) {
			s := newSite(t)
			s.place.Policy.AcceptSystemDisk, s.place.Policy.AcceptMAASErase, s.place.Policy.DiskGrade = true, true, grade
			s.book.Change(s.id, func(m *turnovertest.Machine) {
				m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "NVME-1", State: broker.DeviceFound})
				m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "nvme0n1", Serial: "NVME-1"})
			})
			s.region.Inject(maassim.Fault{Kind: maassim.EraseFails, Op: "", Times: 2})
			r := s.turnOver(reimage)
			s.failed(r, "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met")
			s.is(broker.Quarantined, true)
			c := s.certified(r.ID)
			for name, did := range map[string]certificate.Method{"BOSS-" + s.id: certificate.MethodMkfs, "NVME-1": certificate.MethodNone} {
				short(t, c, certificate.CodeDowngrade, name)
				at := slices.IndexFunc(c.Downgrades, func(d certificate.Downgrade) bool { return d.Device == name })
				if at < 0 {
					t.Fatalf("no downgrade of %s: %+v", name, c.Downgrades)
				}
				if d := c.Downgrades[at]; d.Asked != certificate.MethodMAASSecureErase || d.Did != did || d.AcceptedBy != "" || !strings.Contains(d.Reason, "MAAS failed 2 times to erase the disks") {
					t.Errorf("%+v", d)
				}
			}
			// The next reimage erases the disks, and the node is handed out.
			if r = s.order(r.ID, chain.Cancel); r.Status != chain.Cancelled {
				t.Fatalf("%s at %s", r.Status, r.Stage)
			}
			if r = s.turnOver(reimage); r.Status != chain.Completed {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
		})
	}
}

// Only the setting for downgrades accepts a downgrade, within its grade, and the certificate
// states it.
func TestADowngradeIsAcceptedByAWordAboutDowngrades(t *testing.T) {
	for least, passes := range map[string]bool{"never": false, "clear": false, "none": true} {
		t.Run("MAAS could not erase, "+least, func(t *testing.T) {
			s := newSite(t)
			s.place.Policy.AcceptEraseDowngrade = least
			s.region.Inject(maassim.Fault{Kind: maassim.EraseFails, Op: "", Times: 2})
			r := s.turnOver(reimage)
			if passed := r.Status == chain.Completed; passed != passes {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			c := s.certified(r.ID)
			if len(c.Downgrades) != 1 || c.Verdict.MeetsPolicy != passes || (c.Downgrades[0].Because == "accept_erase_downgrade") != passes {
				t.Errorf("meets %v: %+v", c.Verdict.MeetsPolicy, c.Downgrades)
			}
		})
	}
	for least, passes := range map[string]bool{"never": false, "clear": true, "purge": false} {
		t.Run("a disk could do better, "+least, func(t *testing.T) {
			w := newWorld(t)
			w.policy.AcceptEraseDowngrade = least
			w.book.Change(node, func(m *turnovertest.Machine) {
				m.Better = taskcatalog.MethodNVMeFormatCrypto
				m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "NVME-1", State: broker.DeviceFound})
				m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "nvme0n1", Serial: "NVME-1", SizeBytes: 1 << 40})
			})
			req := reset
			req.Erase = taskcatalog.EraseSecure
			if r := w.begin(req); (r.Status == chain.Completed) != passes {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
		})
	}
}

// A disk without a record, without a name or with another disk's serial, is on the certificate as
// untreated.
func TestNoDiskOfTheMachineIsLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		has  taskcatalog.DiskFacts
		said string
	}{
		"without a name":             {taskcatalog.DiskFacts{Name: "vdb", SizeBytes: 1 << 40}, "disk:vdb"},
		"of the same serial, a name": {taskcatalog.DiskFacts{Name: "nvme0n2", Serial: "BOSS-" + node, WWID: "eui.02", SizeBytes: 1 << 40}, "eui.02"},
		"of the same serial, none":   {taskcatalog.DiskFacts{Name: "nvme0n2", Serial: "BOSS-" + node, SizeBytes: 1 << 40}, "disk:nvme0n2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.book.Change(node, func(m *turnovertest.Machine) {
				m.Parts.Facts.Disks[0].WWID = "eui.01"
				m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, test.has)
			})
			r := w.begin(reset)
			w.failed(r, "issue_clean_certificate", broker.PolicyNotMet, "policy_not_met")
			w.stands(broker.Quarantined, true)
			c := w.certified(r.ID)
			d := rowOf(t, c, test.said)
			if d.Method != certificate.MethodNone || d.Expected || !d.Found {
				t.Errorf("%+v", d)
			}
			short(t, c, certificate.CodeDeviceUnexpected, d.Name())
			short(t, c, certificate.CodeBelowPolicy, d.Name())
			if system := rowOf(t, c, "BOSS-"+node); !system.Expected {
				t.Errorf("the system's: %+v", system)
			}
		})
	}
}

// Each of two namespaces of a drive has its own treatment.
func TestEachNamespaceIsADiskOfItsOwn(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Parts.Facts.Disks = []taskcatalog.DiskFacts{
			{Name: "nvme0n1", Serial: "S5X", WWID: "eui.01", SizeBytes: 1 << 40, System: true},
			{Name: "nvme0n2", Serial: "S5X", WWID: "eui.02", SizeBytes: 1 << 40},
		}
		m.Parts.Devices = slices.DeleteFunc(m.Parts.Devices, func(d broker.Device) bool { return d.Kind == broker.DeviceDisk })
		for _, d := range broker.ReportedDevices(m.Parts.Facts) {
			if d.State = broker.DeviceFound; d.Kind == broker.DeviceDisk {
				if d.Role = broker.RoleData; d.Place == "nvme0n1" {
					d.Role = broker.RoleSystem
				}
				m.Parts.Devices = append(m.Parts.Devices, d)
			}
		}
	})
	r := w.begin(reset)
	w.failed(r, "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met") // nothing was done to the second
	c := w.certified(r.ID)
	if first, second := rowOf(t, c, "eui.01"), rowOf(t, c, "eui.02"); first.Method != certificate.MethodFileDeletion || second.Method != certificate.MethodNone || !second.Expected {
		t.Errorf("%+v, %+v", first, second)
	}
	w.act(r.ID, chain.Cancel)
	req := reset
	req.Erase = taskcatalog.EraseSecure
	if r = w.begin(req); r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	c = w.certified(r.ID)
	if first, second := rowOf(t, c, "eui.01"), rowOf(t, c, "eui.02"); first.Method != certificate.MethodFileDeletion || second.Method != certificate.MethodOverwrite || !second.Expected {
		t.Errorf("%+v, %+v", first, second)
	}
}

// A failed scrub does not stop a removal. A failed erase does if nothing else erases the disks,
// until a person waives the stage. The certificate states the truth about each part.
func TestARemovalGoesOnWithoutTheResultOfATask(t *testing.T) {
	for _, typ := range []string{"node.gpu_scrub", "node.disk_erase"} {
		t.Run(typ, func(t *testing.T) {
			w := newWorld(t)
			w.book.Change(node, func(m *turnovertest.Machine) {
				m.Fails = map[string]taskcatalog.Code{typ: "handler_failed"}
				m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "NVME-1", State: broker.DeviceFound})
				m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "nvme0n1", Serial: "NVME-1"})
			})
			r := w.begin(turnover.Request{Mode: turnover.FullDecommission, Erase: taskcatalog.EraseSecure})
			if typ == "node.disk_erase" {
				w.failed(r, "erase_local_disks", broker.DiskEraseUnsupported, "handler_failed")
				r = w.without(r)
			}
			if r.Status != chain.Completed {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			w.stands(broker.Deleted, true)
			c := w.certified(r.ID)
			if at := slices.IndexFunc(c.Tasks, func(k certificate.Task) bool { return k.Type == typ }); at < 0 || c.Tasks[at].Outcome != taskcatalog.OutcomeFailed || c.Tasks[at].Proof == nil {
				t.Errorf("the task is not on it with its proof: %+v", c.Tasks)
			}
			gpus := 0
			for _, d := range c.Devices {
				if d.Kind == certificate.KindGPU {
					gpus++
				}
			}
			if gpus != 8 {
				t.Errorf("%d GPUs", gpus)
			}
			if typ == "node.gpu_scrub" {
				short(t, c, certificate.CodeDeviceNotClean, "1000")
			} else if d := rowOf(t, c, "NVME-1"); d.Method != certificate.MethodNone {
				t.Errorf("%+v", d)
			}
		})
	}
}

// A GPU on record without a scrub is on the certificate.
func TestNoGPUOnRecordIsLeftOut(t *testing.T) {
	uuid := "GPU-" + node + "-7"
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Parts.GPUs, m.Parts.Facts.GPUs = m.Parts.GPUs[:7], m.Parts.Facts.GPUs[:7] // the baseline was taken without it
		m.Parts.Devices[8].State = broker.DeviceMissing
	})
	r := w.begin(reset)
	w.failed(r, "issue_clean_certificate", broker.PolicyNotMet, "policy_not_met")
	c := w.certified(r.ID)
	short(t, c, certificate.CodeDeviceMissing, uuid)
	if d := rowOf(t, c, uuid); !d.Expected || d.Found {
		t.Errorf("%+v", d)
	}

	w = newWorld(t)
	w.policy.DrainTimeoutSeconds = 60
	w.book.Change(node, func(m *turnovertest.Machine) { m.Silent, m.Hostname = true, "x" })
	state := w.begin(turnover.Request{Mode: turnover.FullDecommission})
	c = w.certified(state.ID)
	gpus := 0
	for _, d := range c.Devices {
		if d.Kind == certificate.KindGPU && d.Method == certificate.MethodNone && d.Expected && d.Found && d.Verdict == taskcatalog.VerdictInconclusive {
			gpus++
		}
	}
	if gpus != 8 || c.Verdict.MeetsPolicy {
		t.Errorf("%d GPUs, meets %v", gpus, c.Verdict.MeetsPolicy)
	}
}

// A failed cleanup is not reported as a deletion of files.
func TestACleanupThatFailedDeletesNoFiles(t *testing.T) {
	w := newWorld(t)
	w.policy.DiskGrade = "none"
	w.book.LetIn(node, "a-1", "acme", false)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"node.storage_cleanup": "handler_failed"}
	})
	r := w.begin(reset)
	w.failed(r, "cleanup_storage", broker.ResidueFound, "handler_failed")
	if _, err := w.engine.Act(ctx, chain.Order{ID: r.ID, Actor: chain.Actor{Name: "root", Role: "platform_admin"}, Action: chain.Resume, Without: "cleanup_storage", Reason: "because"}); err != nil {
		t.Fatal(err)
	}
	r = w.settle(r.ID)
	c := w.certified(r.ID)
	if d := rowOf(t, c, "BOSS-"+node); d.Method != certificate.MethodNone || d.Verdict == taskcatalog.VerdictClean || len(c.Overrides) != 1 {
		t.Errorf("%+v, overrides %+v", d, c.Overrides)
	}
}

// A node with any number of users gets its certificate.
func TestANodeOfManyUsersIsCertified(t *testing.T) {
	w := newWorld(t)
	for i := range 80 {
		w.book.LetIn(node, fmt.Sprintf("a-%02d", i), "acme", false)
	}
	r := w.begin(reset)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	w.stands(broker.Active, false)
	c := w.certified(r.ID)
	if c.TasksOmitted != 48 || len(c.Earlier) != 79 || c.EarlierOmitted != 0 {
		t.Errorf("%d tasks and %d more, %d allocations before the last and %d more", len(c.Tasks), c.TasksOmitted, len(c.Earlier), c.EarlierOmitted)
	}
}

// The certificate names all allocations on the node, and says which were ended by force.
func TestEachAllocationStandsOnTheCertificateAsItEnded(t *testing.T) {
	w := newWorld(t)
	w.book.LetIn(node, "a-1", "acme", false)
	w.clock.Advance(time.Minute)
	w.book.Change(node, func(m *turnovertest.Machine) { m.Users[0].EndedAt = w.clock.Now() })
	w.clock.Advance(time.Minute)
	w.book.LetIn(node, "a-2", "emca", false)
	r := w.begin(reset)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	c := w.certified(r.ID)
	if c.Allocation.ID != "a-2" || !c.Allocation.Forced || len(c.Earlier) != 1 || c.Earlier[0].ID != "a-1" || c.Earlier[0].Tenant != "acme" || c.Earlier[0].Forced {
		t.Errorf("%+v, before it %+v", c.Allocation, c.Earlier)
	}

	w = newWorld(t)
	w.book.LetIn(node, "a-1", "acme", false)
	w.clock.Advance(time.Minute)
	w.book.Change(node, func(m *turnovertest.Machine) { m.Users[0].EndedAt = w.clock.Now() })
	r = w.begin(turnover.Request{Mode: turnover.FullDecommission})
	if c = w.certified(r.ID); c.Allocation == nil || c.Allocation.Forced {
		t.Errorf("%+v: it ended by itself", c.Allocation)
	}
}

// A disk that left while tenants were there is reported, though an operator has accepted its
// absence.
func TestAPartThatWasAcceptedAsGoneIsToldOf(t *testing.T) {
	w := newWorld(t)
	gone := func(id string) {
		w.book.Change(node, func(m *turnovertest.Machine) {
			m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: id, State: broker.DeviceRemoved, Since: w.clock.Now(), Reason: "RMA 7"})
		})
	}
	gone("WD-1") // before
	w.clock.Advance(time.Minute)
	w.book.LetIn(node, "a-1", "acme", false)
	w.clock.Advance(time.Minute)
	gone("WD-2")
	r := w.begin(reset)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	var told []string
	for _, e := range w.certified(r.ID).Exposures {
		if e.Code == certificate.ExposureAcceptedGone {
			told = append(told, e.Message)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "WD-2") || !strings.Contains(told[0], "RMA 7") {
		t.Errorf("it tells of %q", told)
	}
}

// A baseline that a person accepted after a tenant came may contain the tenant's changes: the
// certificate reports the acceptance, also an acceptance in the middle of the run.
func TestABaselineThatWasAcceptedSinceIsToldOf(t *testing.T) {
	w := newWorld(t)
	accepted := func(reason string) {
		w.clock.Advance(time.Minute)
		w.book.Change(node, func(m *turnovertest.Machine) {
			m.Parts.Baselines = append(m.Parts.Baselines, turnover.Accepted{By: "ada", Reason: reason, At: w.clock.Now()})
		})
		w.clock.Advance(time.Minute)
	}
	told := func(run string) (said []string) {
		for _, e := range w.certified(run).Exposures {
			if e.Code == certificate.ExposureBaseline {
				said = append(said, e.Message)
			}
		}
		return said
	}
	accepted("before")
	if said := told(w.begin(reset).ID); len(said) != 0 {
		t.Errorf("nobody was on it, and it tells of %q", said)
	}
	w.book.LetIn(node, "a-1", "acme", false)
	accepted("another image")
	if said := told(w.begin(reset).ID); len(said) != 1 || !strings.Contains(said[0], "ada") || !strings.Contains(said[0], "another image") {
		t.Errorf("it tells of %q", said)
	}
}

// Each network card of the baseline is on the certificate. A node with a missing card does not
// come so far.
func TestNetworkCardsAreExpectedAndFound(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) { m.Parts.NICs = []string{"0c:42:a1:00:00:02", "0c:42:a1:00:00:01"} })
	r := w.begin(reset)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	for _, mac := range []string{"0c:42:a1:00:00:01", "0c:42:a1:00:00:02"} {
		if d := rowOf(t, w.certified(r.ID), mac); d.Kind != certificate.KindNIC || !d.Expected || !d.Found {
			t.Errorf("%+v", d)
		}
	}

	w = newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Parts.NICs = []string{"0c:42:a1:00:00:01", "0c:42:a1:00:00:02"}
		m.Residue = []taskcatalog.Finding{{Check: "inventory", Subject: "nic 0c:42:a1:00:00:02"}}
	})
	r = w.begin(reset)
	w.failed(r, "validate_clean_node", broker.ResidueFound, "residue_found")
	w.stands(broker.Quarantined, true)
}

// without lets a run continue past the stage at which it stopped.
func (w *world) without(r chain.Record) chain.Record {
	w.t.Helper()
	if _, err := w.engine.Act(ctx, chain.Order{ID: r.ID, Actor: ada, Action: chain.Resume, Without: r.Stage, Reason: "the drives are shredded"}); err != nil {
		w.t.Fatal(err)
	}
	return w.settle(r.ID)
}
