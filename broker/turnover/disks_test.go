package turnover_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

// second adds a disk to the node, with its record and the node's report.
func (w *world) second(record broker.Device, says taskcatalog.DiskFacts) {
	record.Kind, record.ID = broker.DeviceDisk, "NVME-1"
	says.Name, says.Serial, says.Model = "nvme0n1", "NVME-1", "X"
	if record.State == "" {
		record.State = broker.DeviceFound
	}
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Parts.Devices = append(m.Parts.Devices, record)
		m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, says)
	})
}

// named are the serials of the disks in the last erase.
func (w *world) named() (serials []string, p taskcatalog.DiskEraseParams) {
	w.t.Helper()
	asked := w.book.Tasks(node, "node.disk_erase")
	if len(asked) == 0 {
		return nil, p
	}
	if err := json.Unmarshal(asked[len(asked)-1].Params, &p); err != nil {
		w.t.Fatal(err)
	}
	for _, d := range p.Disks {
		serials = append(serials, d.Serial)
	}
	return serials, p
}

// row is the second disk's row on the run's certificate.
func (w *world) row(runID string) (certificate.Device, *certificate.Report) {
	w.t.Helper()
	report, err := w.book.Verify(w.state(runID).Issued)
	if err != nil {
		w.t.Fatal(err)
	}
	at := slices.IndexFunc(report.Clean.Devices, func(d certificate.Device) bool { return d.Serial == "NVME-1" })
	if at < 0 {
		w.t.Fatalf("it is not on the certificate: %+v", report.Clean.Devices)
	}
	return report.Clean.Devices[at], report
}

const terabyte = 1 << 40

// A tenant with root mounted a data disk as the system, or the agent lies: the policy for the
// system's disk does not apply to this disk.
func TestADataDiskIsNotClearedByBeingCalledTheSystems(t *testing.T) {
	for name, test := range map[string]struct {
		record broker.Device
		says   taskcatalog.DiskFacts
		erase  string
		stage  string
		class  broker.FailureClass
		code   string
		short  taskcatalog.Code
	}{
		"nothing was to be erased":    {broker.Device{Role: broker.RoleData}, taskcatalog.DiskFacts{System: true}, "", "issue_clean_certificate", broker.DiskEraseUnsupported, "policy_not_met", taskcatalog.CodeDiskNotSystem},
		"it was to be erased":         {broker.Device{Role: broker.RoleData}, taskcatalog.DiskFacts{System: true}, taskcatalog.EraseSecure, "erase_local_disks", broker.DiskEraseUnsupported, "disk_backs_system", ""},
		"nobody recorded its role":    {broker.Device{}, taskcatalog.DiskFacts{System: true}, "", "issue_clean_certificate", broker.DiskEraseUnsupported, "policy_not_met", taskcatalog.CodeDiskRoleUnrecorded},
		"that, and it was to be":      {broker.Device{}, taskcatalog.DiskFacts{System: true}, taskcatalog.EraseSecure, "erase_local_disks", broker.DiskEraseUnsupported, "disk_backs_system", ""},
		"it is called a network's":    {broker.Device{Role: broker.RoleData, Transport: "pcie"}, taskcatalog.DiskFacts{Transport: "tcp"}, "", "issue_clean_certificate", broker.DiskEraseUnsupported, "policy_not_met", taskcatalog.CodeDiskTransportDiffers},
		"it is smaller":               {broker.Device{Role: broker.RoleData, Size: terabyte}, taskcatalog.DiskFacts{SizeBytes: terabyte - 512}, "", "issue_clean_certificate", broker.DiskEraseUnsupported, "policy_not_met", taskcatalog.CodeDiskSmaller},
		"smaller, and to be erased":   {broker.Device{Role: broker.RoleData, Size: terabyte}, taskcatalog.DiskFacts{SizeBytes: terabyte - 512}, taskcatalog.EraseSecure, "erase_local_disks", broker.DiskEraseUnsupported, "disk_smaller", ""},
		"the system's, and smaller":   {broker.Device{Role: broker.RoleSystem, Size: terabyte}, taskcatalog.DiskFacts{SizeBytes: 512, System: true}, "", "issue_clean_certificate", broker.DiskEraseUnsupported, "policy_not_met", taskcatalog.CodeDiskSmaller},
		"it has no size":              {broker.Device{Role: broker.RoleData, Size: terabyte}, taskcatalog.DiskFacts{Problem: taskcatalog.DiskNoSize}, "", "issue_clean_certificate", broker.DiskEraseUnsupported, "policy_not_met", taskcatalog.CodeDiskNoSize},
		"no size, and to be erased":   {broker.Device{Role: broker.RoleData, Size: terabyte}, taskcatalog.DiskFacts{Problem: taskcatalog.DiskNoSize}, taskcatalog.EraseSecure, "erase_local_disks", broker.DiskEraseUnsupported, "disk_no_size", ""},
		"no size, since ever":         {broker.Device{Role: broker.RoleData}, taskcatalog.DiskFacts{Problem: taskcatalog.DiskNoSize}, taskcatalog.EraseSecure, "erase_local_disks", broker.DiskEraseUnsupported, "disk_no_size", ""},
		"the system's no more":        {broker.Device{Role: broker.RoleSystem, Size: terabyte}, taskcatalog.DiskFacts{SizeBytes: terabyte}, "", "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met", certificate.CodeBelowPolicy},
		"a network's, not accepted":   {broker.Device{Role: broker.RoleData, Transport: "tcp"}, taskcatalog.DiskFacts{Transport: "tcp"}, taskcatalog.EraseSecure, "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met", taskcatalog.CodeDiskNotLocal},
		"a RAID volume, not accepted": {broker.Device{Role: broker.RoleData, Transport: "unknown"}, taskcatalog.DiskFacts{Transport: "unknown"}, "", "issue_clean_certificate", broker.EraseDowngraded, "policy_not_met", certificate.CodeBelowPolicy},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.second(test.record, test.says)
			req := reset
			req.Erase = test.erase
			r := w.begin(req)
			w.failed(r, test.stage, test.class, test.code)
			stays := broker.Quarantined
			if test.code == "disk_backs_system" {
				stays = broker.Retired // as it was drained
			}
			w.stands(stays, true)
			if test.short == "" {
				return
			}
			d, report := w.row(r.ID)
			if report.Holds() || !slices.Contains(w.state(r.ID).Shortfalls, string(test.short)) {
				t.Errorf("it falls short in %v: %+v", w.state(r.ID).Shortfalls, d)
			}
			if d.Method == certificate.MethodFileDeletion && test.record.Role != broker.RoleSystem {
				t.Errorf("files are said to be deleted on it: %+v", d)
			}
		})
	}
}

// Only the erased bytes count, whatever the node reports about the disk before and after.
func TestAnEraseThatReachedLessThanTheRecordFallsShort(t *testing.T) {
	w := newWorld(t)
	w.second(broker.Device{Role: broker.RoleData, Size: terabyte}, taskcatalog.DiskFacts{SizeBytes: terabyte})
	w.book.Change(node, func(m *turnovertest.Machine) { m.Short = 512 })
	req := reset
	req.Erase = taskcatalog.EraseSecure
	r := w.begin(req)
	w.failed(r, "issue_clean_certificate", broker.DiskEraseUnsupported, "policy_not_met")
	if d, _ := w.row(r.ID); d.Code != taskcatalog.CodeDiskSmaller || d.Verdict != taskcatalog.VerdictNotClean {
		t.Errorf("the certificate has %+v", d)
	}
	w.stands(broker.Quarantined, true)
}

// A network disk that existed when the node was let in stays out of the erase, and the
// certificate states so; only a policy accepts this.
func TestADiskOfANetworkStaysOutOfTheEraseAndIsTold(t *testing.T) {
	w := newWorld(t)
	w.policy.AcceptNetworkDisks = true
	w.second(broker.Device{Role: broker.RoleData, Transport: "tcp"}, taskcatalog.DiskFacts{Transport: "tcp", SizeBytes: 4096})
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "SATA-1", State: broker.DeviceFound, Role: broker.RoleData, Transport: "sata"})
		m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "sdb", Serial: "SATA-1", Model: "Y", SizeBytes: 512, Transport: "sata"})
	})
	req := reset
	req.Erase = taskcatalog.EraseSecure
	r := w.begin(req)
	if r.Status != chain.Completed {
		t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
	}
	if names, _ := w.named(); !slices.Equal(names, []string{"SATA-1"}) {
		t.Errorf("the erase names %v", names)
	}
	d, report := w.row(r.ID)
	told := slices.ContainsFunc(report.Clean.Downgrades, func(g certificate.Downgrade) bool {
		return g.Device == "NVME-1" && g.Did == certificate.MethodNone && g.Because == "accept_network_disks"
	})
	if !report.Holds() || d.Method != certificate.MethodNone || d.Code != taskcatalog.CodeDiskNotLocal || !told ||
		len(d.Exclusions) != 1 || d.Exclusions[0] != (certificate.Exclusion{Reason: "not_local_tcp", Bytes: 4096}) {
		t.Errorf("the certificate has %+v, told %v: %v", d, told, report.Remarks)
	}
}

// An unreadable disk does not prevent the erase of the other disks of a leaving node; the
// certificate states that nothing was done to the unreadable disk.
func TestADiskWithoutASizeIsToldOfANodeThatLeaves(t *testing.T) {
	for name, other := range map[string]bool{"beside another": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.second(broker.Device{Role: broker.RoleData}, taskcatalog.DiskFacts{Problem: taskcatalog.DiskNoSize, Transport: "sas"})
			var want []string
			if other {
				want = []string{"SATA-1"}
				w.book.Change(node, func(m *turnovertest.Machine) {
					m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "SATA-1", State: broker.DeviceFound, Role: broker.RoleData, Transport: "sata"})
					m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "sdb", Serial: "SATA-1", Model: "Y", SizeBytes: 512, Transport: "sata"})
				})
			}
			r := w.begin(turnover.Request{Mode: turnover.FullDecommission, Erase: taskcatalog.EraseSecure})
			if r.Status != chain.Completed {
				t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
			}
			if names, _ := w.named(); !slices.Equal(names, want) {
				t.Errorf("the erase names %v", names)
			}
			if d, _ := w.row(r.ID); d.Method != certificate.MethodNone || d.Verdict != taskcatalog.VerdictNotClean || d.Code != taskcatalog.CodeDiskNoSize {
				t.Errorf("the certificate has %+v", d)
			}
		})
	}
}

// A disk that only the node reports as a network disk is named for the erase: the agent refuses
// the whole task, and no disk is left out silently.
func TestADiskThatIsCalledANetworksIsNamedAllTheSame(t *testing.T) {
	w := newWorld(t)
	w.second(broker.Device{Role: broker.RoleData, Transport: "pcie"}, taskcatalog.DiskFacts{Transport: "tcp", SizeBytes: 512})
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Fails = map[string]taskcatalog.Code{"node.disk_erase": taskcatalog.CodeDiskNotLocal}
	})
	req := reset
	req.Erase = taskcatalog.EraseSecure
	w.failed(w.begin(req), "erase_local_disks", broker.DiskEraseUnsupported, "disk_not_local")
	if names, _ := w.named(); !slices.Equal(names, []string{"NVME-1"}) {
		t.Errorf("the erase names %v", names)
	}
	w.stands(broker.Retired, true)
}

func TestDisksThatADPUShowsAreErasedWhereTheSKUSaysSo(t *testing.T) {
	for _, says := range []bool{false, true} {
		w := newWorld(t)
		w.second(broker.Device{Role: broker.RoleData}, taskcatalog.DiskFacts{SizeBytes: 512})
		w.book.Change(node, func(m *turnovertest.Machine) { m.Parts.DPUDisks = says })
		req := reset
		req.Erase = taskcatalog.EraseSecure
		if r := w.begin(req); r.Status != chain.Completed {
			t.Fatalf("%s at %s: %+v", r.Status, r.Stage, r.Failure)
		}
		if _, p := w.named(); p.DPUEmulatedOK != says {
			t.Errorf("by the SKU %v, the task says %v", says, p.DPUEmulatedOK)
		}
	}
}
