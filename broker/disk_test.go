package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// A node's report alone exempts no disk: a tenant with root could have falsified the report.
func TestADiskIsLeftOutOfAnEraseByTheRecordAlone(t *testing.T) {
	system := Device{Kind: DeviceDisk, ID: "D", Size: 100, State: DeviceFound, Role: RoleSystem, Transport: "pcie"}
	data := Device{Kind: DeviceDisk, ID: "D", Size: 100, State: DeviceFound, Role: RoleData, Transport: "sata"}
	volume := Device{Kind: DeviceDisk, ID: "D", Size: 100, State: DeviceFound, Role: RoleData, Transport: "iscsi"}
	older := Device{Kind: DeviceDisk, ID: "D", Size: 100, State: DeviceFound}
	surplus := Device{Kind: DeviceDisk, ID: "D", State: DeviceUnexpected}
	removed := Device{Kind: DeviceDisk, ID: "D", State: DeviceRemoved, Role: RoleSystem}
	says := func(serial, transport string, size int64, system bool) taskcatalog.DiskFacts {
		return taskcatalog.DiskFacts{Serial: serial, Transport: transport, SizeBytes: size, System: system}
	}
	for name, row := range map[string]struct {
		known []Device
		facts []taskcatalog.DiskFacts
		want  string
	}{
		"the system's, as recorded":                         {[]Device{system}, []taskcatalog.DiskFacts{says("D", "pcie", 100, true)}, "system"},
		"a data disk that is called system":                 {[]Device{data}, []taskcatalog.DiskFacts{says("D", "sata", 100, true)}, "data disk_not_system"},
		"a system disk that is none any more":               {[]Device{system}, []taskcatalog.DiskFacts{says("D", "pcie", 100, false)}, "data"},
		"no record of roles":                                {[]Device{older}, []taskcatalog.DiskFacts{says("D", "pcie", 100, true)}, "data disk_role_unrecorded"},
		"no record of the disk":                             {nil, []taskcatalog.DiskFacts{says("D", "pcie", 100, true)}, "data disk_not_system"},
		"unexpected":                                        {[]Device{surplus}, []taskcatalog.DiskFacts{says("D", "pcie", 100, true)}, "data disk_not_system"},
		"it was removed":                                    {[]Device{removed}, []taskcatalog.DiskFacts{says("D", "pcie", 100, true)}, "data disk_not_system"},
		"without a name":                                    {[]Device{system}, []taskcatalog.DiskFacts{says("", "pcie", 100, true)}, "data disk_not_system"},
		"two namespaces, one of them data":                  {[]Device{system}, []taskcatalog.DiskFacts{says("D", "pcie", 50, true), says("D", "pcie", 50, false)}, "data disk_not_system, data"},
		"two that are both called system":                   {[]Device{system}, []taskcatalog.DiskFacts{says("D", "pcie", 100, true), says("D", "pcie", 100, true)}, "data disk_not_system, data disk_not_system"},
		"a volume, as recorded":                             {[]Device{volume}, []taskcatalog.DiskFacts{says("D", "iscsi", 7, false)}, "network"},
		"a volume that is local now":                        {[]Device{volume}, []taskcatalog.DiskFacts{says("D", "sata", 100, false)}, "data"},
		"a local disk that is a volume now":                 {[]Device{data}, []taskcatalog.DiskFacts{says("D", "tcp", 100, false)}, "data disk_transport_differs"},
		"a volume that nobody recorded as such":             {[]Device{older}, []taskcatalog.DiskFacts{says("D", "tcp", 100, false)}, "data disk_transport_differs"},
		"a volume that nobody knows":                        {nil, []taskcatalog.DiskFacts{says("D", "virtio", 100, false)}, "data disk_transport_differs"},
		"a RAID controller's":                               {[]Device{{Kind: DeviceDisk, ID: "D", Transport: "unknown"}}, []taskcatalog.DiskFacts{says("D", "unknown", 100, false)}, "data"},
		"a data disk with the system's name beside its own": {[]Device{{Kind: DeviceDisk, ID: "S", State: DeviceFound, Role: RoleSystem}, data}, []taskcatalog.DiskFacts{{Serial: "D", WWID: "S", SizeBytes: 100, System: true}}, "data disk_not_system"},
		"smaller":                              {[]Device{data}, []taskcatalog.DiskFacts{says("D", "sata", 99, false)}, "data disk_smaller"},
		"the system's, and smaller":            {[]Device{system}, []taskcatalog.DiskFacts{says("D", "pcie", 99, true)}, "system disk_smaller"},
		"larger":                               {[]Device{data}, []taskcatalog.DiskFacts{says("D", "sata", 101, false)}, "data"},
		"in two namespaces, as large together": {[]Device{data}, []taskcatalog.DiskFacts{says("D", "pcie", 60, false), says("D", "pcie", 40, false)}, "data, data"},
		"in two namespaces, and smaller":       {[]Device{data}, []taskcatalog.DiskFacts{says("D", "pcie", 60, false), says("D", "pcie", 39, false)}, "data disk_smaller, data disk_smaller"},
		"of a size that nobody recorded":       {[]Device{surplus}, []taskcatalog.DiskFacts{says("D", "pcie", 1, false)}, "data"},
	} {
		var got []string
		for _, d := range JudgeDisks(row.known, taskcatalog.Facts{Disks: row.facts}) {
			got = append(got, strings.TrimSpace(fmt.Sprint(d.Use, " ", d.Code)))
			if (d.Code != "") != (d.Why != "") {
				t.Errorf("%s: code %q because %q", name, d.Code, d.Why)
			}
		}
		if strings.Join(got, ", ") != row.want {
			t.Errorf("%s: %q, want %q", name, strings.Join(got, ", "), row.want)
		}
	}
}

// The first recorded size counts: a node's report never lowers a recorded size.
func TestARecordOfDisksIsThatOfAFreshSystem(t *testing.T) {
	f := taskcatalog.Facts{Disks: []taskcatalog.DiskFacts{
		{Serial: "A", SizeBytes: 90, Transport: "pcie", System: true},
		{Serial: "B", SizeBytes: 200, Transport: "tcp"},
		{Serial: "C", SizeBytes: 1, System: true},
		{Serial: "N", SizeBytes: 5, Transport: "pcie"},
		{Serial: "N", SizeBytes: 6, Transport: "pcie", System: true},
	}}
	disk := func(id string, s DeviceState) Device { return Device{Kind: DeviceDisk, ID: id, Size: 100, State: s} }
	got := RecordDisks([]Device{disk("A", DeviceFound), disk("B", DeviceExpected), disk("C", DeviceUnexpected), disk("X", DeviceFound), {Kind: DeviceDisk, ID: "N", State: DeviceFound}}, f)
	var words []string
	for _, d := range got {
		words = append(words, fmt.Sprintf("%s %d %s %s", d.ID, d.Size, d.Role, d.Transport))
	}
	if want := "A 100 system pcie|B 200 data tcp|C 100  |X 100  |N 11 system pcie"; strings.Join(words, "|") != want {
		t.Errorf("recorded are %q, want %q", words, want)
	}
}

// An operator accepts the node's report of size and transport; the role of a system disk needs
// the explicit system argument.
func TestAPersonsWordForADiskIsItsRecord(t *testing.T) {
	f := taskcatalog.Facts{Disks: []taskcatalog.DiskFacts{{Serial: "D", SizeBytes: 50, Transport: "pcie", System: true}}}
	base := Device{Kind: DeviceDisk, ID: "D", Size: 100, State: DeviceFound}
	for name, row := range map[string]struct {
		role   DiskRole
		state  DeviceState
		system bool
		want   DiskRole
	}{
		"the system's":                  {RoleUnrecorded, DeviceFound, true, RoleSystem},
		"not said, and nobody knew":     {RoleUnrecorded, DeviceFound, false, RoleData},
		"not said, of the system's own": {RoleSystem, DeviceFound, false, RoleSystem},
		"one that is back":              {RoleSystem, DeviceUnexpected, false, RoleData},
		"a data disk":                   {RoleData, DeviceFound, true, RoleSystem},
	} {
		d := base
		d.Role, d.State = row.role, row.state
		one := []Device{d}
		accept := func(system bool) bool { was := AcceptDisk(one, 0, f, system); d = one[0]; return was }
		if !accept(row.system) || d.Role != row.want || d.Size != 50 || d.Transport != "pcie" {
			t.Errorf("%s: %+v", name, d)
		}
		if accept(row.system) && row.state == DeviceFound {
			t.Errorf("%s: accepted again, it is another record", name)
		}
	}
	for _, d := range []Device{{Kind: DeviceGPU, ID: "D", Size: 100, State: DeviceFound}, {Kind: DeviceDisk, ID: "gone", Size: 100, State: DeviceFound}} {
		if one := []Device{d}; AcceptDisk(one, 0, f, true) || one[0] != d {
			t.Errorf("%+v has become another", d)
		}
	}
}
