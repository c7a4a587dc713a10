//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
)

const tenantsLine = "what the tenant wrote to this disk and must never be read again\n"

// drive is a disk of the guest, backed by a file on the host.
type drive struct {
	id, serial string
	file       string
	name       taskcatalog.DiskName // in the guest's kernel
	kernel     string               // nvme0n1
}

// drives are a controller with one namespace, a controller with two, a slow SATA disk, and a disk
// that appears twice, all full of a tenant's data.
func drives(t *testing.T) (map[string]*drive, []string) {
	t.Helper()
	all := map[string]*drive{}
	dir := t.TempDir()
	add := func(id, serial string, mb int) string {
		d := &drive{id: id, serial: serial, file: filepath.Join(dir, id+".raw")}
		content := bytes.Repeat([]byte(tenantsLine), (mb<<20)/len(tenantsLine)+1)
		if err := os.WriteFile(d.file, content[:mb<<20], 0o600); err != nil {
			t.Fatal(err)
		}
		all[id] = d
		return "if=none,format=raw,cache=writeback,id=" + id + ",file=" + d.file
	}
	return all, []string{
		"-drive", add("alone", "ALONE1", 64), "-device", "nvme,serial=ALONE1,drive=alone",
		"-drive", add("first", "PAIR1", 16), "-drive", add("second", "PAIR1", 24),
		"-device", "nvme,id=pair,serial=PAIR1", "-device", "nvme-ns,bus=pair,nsid=1,drive=first", "-device", "nvme-ns,bus=pair,nsid=2,drive=second",
		"-drive", add("sata", "SATA1", 96) + ",throttling.bps-total=12000000", "-device", "piix3-ide,id=ide", "-device", "ide-hd,bus=ide.0,serial=SATA1,drive=sata",
		"-drive", add("twin", "TWIN1", 8), "-drive", add("other", "TWIN1", 8),
		"-device", "ide-hd,bus=ide.1,unit=0,serial=TWIN1,drive=twin", "-device", "ide-hd,bus=ide.1,unit=1,serial=TWIN1,drive=other",
	}
}

// look reads the drives' names from the guest's kernel.
func (s *site) look(all map[string]*drive) {
	s.t.Helper()
	for _, name := range strings.Fields(s.root("ls", "/sys/block")) {
		n := s.identity(name)
		for _, d := range all {
			st, err := os.Stat(d.file)
			if err != nil {
				s.t.Fatal(err)
			}
			if n.Serial == d.serial && n.SizeBytes == st.Size() {
				d.kernel, d.name = name, n
			}
		}
	}
	for id, d := range all {
		if d.kernel == "" {
			s.t.Fatalf("the guest has no disk %s:\n%s", id, s.root("lsblk", "-o", "NAME,SERIAL,SIZE,MODEL"))
		}
	}
}

func (s *site) identity(name string) taskcatalog.DiskName {
	return lab.DiskName(s.ctx, s.guest, name)
}

func (d *drive) digest(t testing.TB) [32]byte {
	t.Helper()
	raw, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(raw)
}

// gone checks the file from outside: no data of the tenant is left. Random also requires that the
// whole file was overwritten with incompressible data.
func (d *drive) gone(t testing.TB, random bool) {
	t.Helper()
	raw, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.Index(raw, []byte(tenantsLine[:24])); i >= 0 {
		t.Errorf("%s still has the tenant's data at byte %d", d.id, i)
	}
	zeros := make([]byte, 4096)
	for at := 0; random && at < len(raw); at += len(zeros) {
		if bytes.Equal(raw[at:at+len(zeros)], zeros) {
			t.Fatalf("%s was not overwritten at byte %d", d.id, at)
		}
	}
}

func (s *site) erase(mode string, disks ...taskcatalog.DiskName) map[string]any {
	return map[string]any{"mode": mode, "disks": disks}
}

func (s *site) erased(t task) taskcatalog.DiskEraseResult {
	s.t.Helper()
	var r taskcatalog.DiskEraseResult
	if err := json.Unmarshal(t.Result, &r); err != nil {
		s.t.Fatalf("%v: %s", err, t.Result)
	}
	return r
}

// sh runs a shell line in the guest; undo runs at the end of the part.
func (s *site) sh(line, undo string) {
	s.t.Helper()
	s.root("sh", "-c", line)
	if undo != "" {
		s.t.Cleanup(func() { s.root("sh", "-c", undo) })
	}
}

func TestDisksAreErasedAndTheWrongOnesAreLeftAlone(t *testing.T) {
	s := newSiteOfItsOwn(t)
	// The case boots its own guest, so it gets twice the time of a case.
	ctx, cancel := context.WithTimeout(t.Context(), 2*caseTime)
	defer cancel()
	s.ctx = ctx
	all, args := drives(t)
	s.guest = qemu.Start(t, shared.image, qemu.Config{Name: node, CPUs: 1, ReachHost: true, Args: args})
	if err := s.guest.WaitCloudInit(s.ctx); err != nil {
		t.Fatal(err)
	}
	deb, err := os.ReadFile(agentPackage(t))
	if err != nil {
		t.Fatal(err)
	}
	s.put("/root/agent.deb", deb, 0o600)
	s.root("dpkg", "-i", "/root/agent.deb")
	s.enrol()
	s.look(all)
	alone, first, second, sata := all["alone"], all["first"], all["second"], all["sata"]

	if r := s.order("node.disk_erase", s.erase("secure", alone.name)); true {
		if _, err := s.Hostler(s.ctx, r...); err == nil || !strings.Contains(err.Error(), "node_status") {
			t.Fatalf("the disks of a node in service may be erased: %v", err)
		}
	}
	s.hostler("node", "quarantine", node, "--reason", "its disks are erased")

	other := func(change func(n *taskcatalog.DiskName)) taskcatalog.DiskName {
		n := alone.name
		change(&n)
		return n
	}
	var network taskcatalog.DiskName
	for _, c := range []struct {
		name  string
		set   func(s *site)
		code  taskcatalog.Code
		wrong taskcatalog.DiskName
	}{
		{"AnotherSerial", nil, taskcatalog.CodeDiskNotFound, other(func(n *taskcatalog.DiskName) { n.Serial, n.WWN = "ALONE2", "" })},
		{"AnotherSize", nil, taskcatalog.CodeDiskDiffers, other(func(n *taskcatalog.DiskName) { n.SizeBytes += 512 })},
		{"TheSameDiskTwice", nil, taskcatalog.CodeDiskListedTwice, sata.name},
		{"ANamespaceThatIsNotNamed", nil, taskcatalog.CodeDiskControllerShared, first.name},
		{"Mounted", func(s *site) {
			s.sh("mkfs.ext4 -q -F /dev/"+alone.kernel+" && mount -o ro /dev/"+alone.kernel+" /mnt", "umount /mnt")
		}, taskcatalog.CodeDiskMounted, alone.name},
		{"MountedWhereNobodySees", func(s *site) {
			s.sh("systemd-run --quiet --unit=hidden -p PrivateMounts=yes -p MountFlags=private sh -c 'mount -o ro /dev/"+alone.kernel+" /mnt && touch /run/hidden && exec sleep 600' && until test -e /run/hidden; do sleep 0.1; done", "systemctl stop hidden; rm /run/hidden")
		}, taskcatalog.CodeDiskInUse, alone.name},
		{"WhereTheSystemBoots", func(s *site) { s.sh("mount -o ro /dev/"+alone.kernel+" /boot", "umount /boot") }, taskcatalog.CodeDiskBacksSystem, alone.name},
		{"Swap", func(s *site) {
			s.sh("mkswap -q /dev/"+alone.kernel+" && swapon /dev/"+alone.kernel, "swapoff /dev/"+alone.kernel)
		}, taskcatalog.CodeDiskSwap, alone.name},
		{"UnderAMapping", func(s *site) {
			s.sh("echo 0 2048 linear /dev/"+alone.kernel+" 0 | dmsetup create held", "dmsetup remove held")
		}, taskcatalog.CodeDiskHeld, alone.name},
		{"InAnArray", func(s *site) {
			s.sh("yes | mdadm --create /dev/md9 --level=1 --force --raid-devices=1 --metadata=1.0 /dev/"+alone.kernel, "mdadm --stop /dev/md9 && mdadm --zero-superblock /dev/"+alone.kernel)
		}, taskcatalog.CodeDiskArrayMember, alone.name},
		{"InAVolumeGroup", func(s *site) {
			s.sh("pvcreate -qqffy /dev/"+alone.kernel+" && vgcreate -qq held /dev/"+alone.kernel+" && lvcreate -qqy -l 1 -n it held", "vgremove -qqffy held && pvremove -qqffy /dev/"+alone.kernel)
		}, taskcatalog.CodeDiskHeld, alone.name},
		{"SeenTwice", nil, taskcatalog.CodeDiskMultipath, all["twin"].name},
		{"APathOfMany", func(s *site) {
			s.sh("modprobe dm-multipath && modprobe dm-round-robin && echo 0 $(blockdev --getsz /dev/"+alone.kernel+") multipath 0 0 1 1 round-robin 0 1 1 /dev/"+alone.kernel+" 1000 | dmsetup create paths -u mpath-alone", "dmsetup remove paths")
		}, taskcatalog.CodeDiskMultipath, alone.name},
		{"OnTheNetwork", func(s *site) { network = s.fabric() }, taskcatalog.CodeDiskNotLocal, taskcatalog.DiskName{}},
		{"OnTheNetworkByISCSI", func(s *site) { network = s.iscsi() }, taskcatalog.CodeDiskNotLocal, taskcatalog.DiskName{}},
	} {
		s.part(c.name, func(s *site) {
			if c.set != nil {
				c.set(s)
			}
			wrong := c.wrong
			if wrong.Model == "" {
				wrong = network
			}
			s.root("sync")
			before := map[string][32]byte{}
			for id, d := range all {
				before[id] = d.digest(s.t)
			}
			// An erasable disk stands before the wrong disk in the request.
			got := s.do("node.disk_erase", s.erase("secure", sata.name, wrong))
			if got.Status != "failed" || got.Code != string(c.code) {
				s.t.Errorf("%+v ended %s: %s: %s, want %s", wrong, got.Status, got.Code, got.Message, c.code)
			}
			for id, d := range all {
				if before[id] != d.digest(s.t) {
					s.t.Errorf("%s was written to", id)
				}
			}
		})
	}
	if t.Failed() {
		t.FailNow()
	}

	s.part("ATrimIsATrim", func(s *site) {
		if d := s.erased(s.must("node.disk_erase", s.erase("quick", alone.name))).Disks[0]; d.Method != taskcatalog.MethodTrim || d.Verification != "none" {
			s.t.Errorf("%+v", d)
		}
	})
	s.part("NVMeDrivesAreFormatted", func(s *site) {
		s.root("sh", "-c", "yes '"+strings.TrimSpace(tenantsLine)+"' | dd of=/dev/"+alone.kernel+" bs=1M iflag=fullblock oflag=direct status=none || true")
		res := s.erased(s.must("node.disk_erase", s.erase("secure", alone.name, first.name, second.name)))
		for i, d := range []*drive{alone, first, second} {
			row := res.Disks[i]
			if row.Method != taskcatalog.MethodNVMeFormatErase || row.Asked != row.Method || row.Verification != "verified" || row.CoveredBytes != uint64(d.name.SizeBytes) || row.Name != d.kernel {
				s.t.Errorf("%+v", row)
			}
			d.gone(s.t, false)
		}
	})
	s.part("KilledInTheMiddleItCountsForNothing", func(s *site) {
		cut := s.enqueue("node.disk_erase", s.erase("secure", sata.name))
		s.started(cut.ID)
		s.root("systemctl", "kill", "--signal=KILL", "hostler-agent")
		got := s.end(cut.ID)
		if got.Outcome != "interrupted" || !strings.Contains(got.Message, "none of the task's disks counts as erased") {
			s.t.Errorf("%+v", got)
		}
		row := s.erased(s.must("node.disk_erase", s.erase("secure", sata.name))).Disks[0]
		if row.Method != taskcatalog.MethodOverwrite || row.Verification != "verified" || row.ReadBackBytes != uint64(sata.name.SizeBytes) {
			s.t.Errorf("%+v", row)
		}
		sata.gone(s.t, true)
	})
	s.hostler("audit", "verify")
	if record := os.Getenv("HOSTLER_RECORD"); record != "" { // saves the programs' output for agent/erase/testdata
		for name, line := range map[string]string{
			"id-ctrl.json": "nvme id-ctrl -o json /dev/nvme0", "id-ns.json": "nvme id-ns -o json -n 1 /dev/nvme0", "list-ns.json": "nvme list-ns --all -o json /dev/nvme0", "hdparm.txt": "hdparm -I /dev/" + sata.kernel,
		} {
			if err := os.WriteFile(filepath.Join(record, name), []byte(s.root("sh", "-c", line)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// fabric gives the guest a disk that it reaches over TCP.
func (s *site) fabric() taskcatalog.DiskName {
	s.t.Helper()
	disk, err := lab.NetworkDisk(s.ctx, s.guest)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := lab.NoNetworkDisk(s.ctx, s.guest); err != nil {
			s.t.Error(err)
		}
	})
	return disk
}
