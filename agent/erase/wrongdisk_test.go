package erase

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/hostler/hostler/agent/erase/erasetest"
	"github.com/hostler/hostler/taskcatalog"
)

// Each row has a disk that must not be erased beside a disk that may: neither is touched.
func TestTheWrongDiskIsTheEndOfTheWholeTask(t *testing.T) {
	t.Parallel()
	const rest = "ata2/host1/target1:0:0/1:0:0:0/block/sdb"
	at := func(dir string) func(*lab) {
		return func(l *lab) { l.ata("sdb", dir, play{}) }
	}
	second := func(change func(l *lab)) func(*lab) {
		return func(l *lab) {
			l.ata("sdb", "devices/pci0000:00/0000:00:1f.2/"+rest, play{})
			change(l)
		}
	}
	named := func(change func(d *taskcatalog.DiskName)) func(*lab) {
		return second(func(l *lab) { change(&l.Params.Disks[1]) })
	}
	held := func(holder, uuid string) func(*lab) {
		return second(func(l *lab) {
			l.partition("sdb", "sdb1")
			l.put("sys/class/block/sdb1/holders/"+holder, "")
			l.put("sys/block/"+holder+"/dm/uuid", uuid)
		})
	}
	for name, c := range map[string]struct {
		set  func(*lab)
		code taskcatalog.Code
	}{
		"no such serial":      {named(func(d *taskcatalog.DiskName) { d.Serial = "X" }), taskcatalog.CodeDiskNotFound},
		"another model":       {named(func(d *taskcatalog.DiskName) { d.Model = "X" }), taskcatalog.CodeDiskDiffers},
		"another size":        {named(func(d *taskcatalog.DiskName) { d.SizeBytes++ }), taskcatalog.CodeDiskDiffers},
		"another WWN":         {named(func(d *taskcatalog.DiskName) { d.WWN = "naa.5000cca2ffffffff" }), taskcatalog.CodeDiskDiffers},
		"an NGUID it has not": {named(func(d *taskcatalog.DiskName) { d.NGUID = strings.Repeat("a", 32) }), taskcatalog.CodeDiskDiffers},
		"another serial, WWN": {named(func(d *taskcatalog.DiskName) { d.Serial, d.WWN = "X", "0x5000CCA2"+fmt.Sprintf("%08x", 'b') }), taskcatalog.CodeDiskDiffers},
		"called by nothing":   {named(func(d *taskcatalog.DiskName) { d.Serial = " " }), taskcatalog.CodeBadParams},
		"an NGUID of zeros":   {named(func(d *taskcatalog.DiskName) { d.Serial, d.NGUID = "", strings.Repeat("0", 32) }), taskcatalog.CodeBadParams},
		"named twice":         {second(func(l *lab) { l.names(l.Params.Disks[1]) }), taskcatalog.CodeDiskListedTwice},
		"named twice, by two names": {second(func(l *lab) {
			l.names(taskcatalog.DiskName{WWN: "naa.5000cca2" + fmt.Sprintf("%08x", 'b'), Model: l.Params.Disks[1].Model, SizeBytes: labSize})
		}), taskcatalog.CodeDiskListedTwice},
		"two of that name": {func(l *lab) {
			l.nvme("nvme1", play{})
			l.namespace("nvme1", 2)
			for i := range l.Params.Disks {
				l.Params.Disks[i].NGUID = ""
			}
		}, taskcatalog.CodeDiskAmbiguous},
		"two paths to it": {second(func(l *lab) {
			l.ata("sdc", "devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sdc", play{})
			for _, file := range []string{"wwid", "vpd_pg80", "model"} {
				raw, err := os.ReadFile(filepath.Join(l.root, "sys/block/sdb/device", file))
				l.ok(err)
				l.put("sys/block/sdc/device/"+file, string(raw))
			}
			l.Params.Disks = l.Params.Disks[:2]
		}), taskcatalog.CodeDiskMultipath},

		"USB":                {at("devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host5/target5:0:0/5:0:0:0/block/sdb"), taskcatalog.CodeDiskNotLocal},
		"a SATA disk on USB": {at("devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/" + rest), taskcatalog.CodeDiskNotLocal},
		"iSCSI":              {at("devices/platform/host5/session1/target5:0:0/5:0:0:0/block/sdb"), taskcatalog.CodeDiskNotLocal},
		"iSCSI by an HBA":    {at("devices/pci0000:00/0000:00:03.0/host5/session1/target5:0:0/5:0:0:0/block/sdb"), taskcatalog.CodeDiskNotLocal},
		"Fibre Channel":      {at("devices/pci0000:00/0000:00:03.0/host5/rport-5:0-0/target5:0:0/5:0:0:0/block/sdb"), taskcatalog.CodeDiskNotLocal},
		"virtio":             {at("devices/pci0000:00/0000:00:03.0/virtio1/host5/target5:0:0/5:0:0:0/block/sdb"), taskcatalog.CodeDiskNotLocal},
		"a RAID volume":      {at("devices/pci0000:00/0000:00:03.0/host5/target5:2:0/5:2:0:0/block/sdb"), taskcatalog.CodeDiskNotLocal},
		"made up":            {at("devices/pseudo_0/adapter0/host5/target5:0:0/5:0:0:0/block/sdb"), taskcatalog.CodeDiskNotLocal},
		"NVMe over TCP": {func(l *lab) {
			l.nvme("nvme1", play{})
			l.put("sys/class/nvme/nvme1/transport", "tcp\n")
		}, taskcatalog.CodeDiskNotLocal},
		"NVMe over a loop that calls itself pcie": {func(l *lab) {
			l.nvme("nvme1", play{})
			l.put("sys/devices/virtual/nvme-fabrics/ctl/nvme1/transport", "pcie\n")
			l.link("class/nvme/nvme1", "devices/virtual/nvme-fabrics/ctl/nvme1")
		}, taskcatalog.CodeDiskNotLocal},
		"behind a DPU": {func(l *lab) {
			l.nvme("nvme1", play{})
			l.put("sys/class/nvme/nvme1/device/vendor", "0x15b3\n")
		}, taskcatalog.CodeDiskDPUEmulated},
		"behind a DPU, by its model": {func(l *lab) {
			l.nvme("nvme1", play{}).Model = "NVIDIA SNAP"
			l.put("sys/class/nvme/nvme1/model", "NVIDIA SNAP\n")
		}, taskcatalog.CodeDiskDPUEmulated},
		"without a size": {second(func(l *lab) { l.put("sys/block/sdb/size", "0\n") }), taskcatalog.CodeDiskNoSize},
		"read-only":      {second(func(l *lab) { l.put("sys/block/sdb/ro", "1\n") }), taskcatalog.CodeDiskReadOnly},

		"mounted": {second(func(l *lab) { l.mounted("23 22 " + l.partition("sdb", "sdb1") + " / /data rw - ext4 /dev/sdb1 rw") }), taskcatalog.CodeDiskMounted},
		"mounted whole": {second(func(l *lab) {
			number, err := os.ReadFile(filepath.Join(l.root, "sys/block/sdb/dev"))
			l.ok(err)
			l.mounted("23 22 " + strings.TrimSpace(string(number)) + " / /data rw - ext4 /dev/sdb rw")
		}), taskcatalog.CodeDiskMounted},
		"a member of a mounted btrfs": {second(func(l *lab) { l.link("fs/btrfs/0b1d/devices/sdb", "devices/pci0000:00/0000:00:1f.2/"+rest) }), taskcatalog.CodeDiskMounted},
		"root": {second(func(l *lab) {
			l.mounts = []string{"22 1 " + l.partition("sdb", "sdb1") + " / / rw - ext4 /dev/sdb1 rw", "23 22 " + l.partition("sdb", "sdb2") + " / /data rw - ext4 /dev/sdb2 rw"}
		}), taskcatalog.CodeDiskBacksSystem},
		"root on LVM on an array": {second(func(l *lab) {
			l.partition("sdb", "sdb1")
			l.block("md0", "devices/virtual/block/md0", nil)
			l.put("sys/class/block/md0/slaves/sdb1", "")
			number := l.block("dm-0", "devices/virtual/block/dm-0", nil)
			l.put("sys/class/block/dm-0/slaves/md0", "")
			l.put("sys/class/block/sdb1/holders/md0", "")
			l.mounts = []string{"22 1 " + number + " / / rw - ext4 /dev/mapper/root rw"}
		}), taskcatalog.CodeDiskBacksSystem},
		"boot": {second(func(l *lab) { l.mounted("23 22 " + l.partition("sdb", "sdb1") + " / /boot rw - ext4 /dev/sdb1 rw") }), taskcatalog.CodeDiskBacksSystem},
		"EFI":  {second(func(l *lab) { l.mounted("23 22 " + l.partition("sdb", "sdb1") + " / /boot/efi rw - vfat /dev/sdb1 rw") }), taskcatalog.CodeDiskBacksSystem},
		"EFI, mounted nowhere": {second(func(l *lab) {
			l.partition("sdb", "sdb1")
			l.efi(map[string]string{"BootCurrent": "\x06\x00\x00\x00\x03\x00", "Boot0003": string(loadOption(1, 2048, 8192))})
		}), taskcatalog.CodeDiskBacksSystem},
		"EFI, which shows no variables": {second(func(l *lab) { l.efi(nil) }), taskcatalog.CodeDiskUnreadable},
		"EFI, and other files in the place of its variables": {second(func(l *lab) {
			l.efi(nil)
			l.put(efiVariables+"BootCurrent"+efiGlobal, "\x06\x00\x00\x00\x07\x00")
			l.mounted("30 22 0:99 / " + filepath.Clean(efiVariables) + " rw - efivarfs efivarfs rw")
			l.mounted("31 30 0:98 / " + filepath.Clean(efiVariables) + " rw - tmpfs tmpfs rw")
		}), taskcatalog.CodeDiskUnreadable},
		"EFI, and another variable over the one": {second(func(l *lab) {
			l.efi(map[string]string{"BootCurrent": "\x06\x00\x00\x00\x07\x00"})
			l.mounted("31 30 0:99 /x " + efiVariables + "BootCurrent" + efiGlobal + " rw - efivarfs efivarfs rw")
		}), taskcatalog.CodeDiskUnreadable},
		"swap": {second(func(l *lab) {
			l.partition("sdb", "sdb1")
			l.put("proc/swaps", "Filename Type Size Used Priority\n/dev/sdb1 partition 1 0 -2\n")
		}), taskcatalog.CodeDiskSwap},
		"an array member": {held("md127", ""), taskcatalog.CodeDiskArrayMember},
		"LVM":             {held("dm-0", "LVM-abc"), taskcatalog.CodeDiskHeld},
		"dm-crypt":        {held("dm-0", "CRYPT-LUKS2-abc"), taskcatalog.CodeDiskHeld},
		"multipath":       {held("dm-0", "mpath-abc"), taskcatalog.CodeDiskMultipath},
		"open elsewhere":  {second(func(l *lab) { l.busy = []string{"sdb"} }), taskcatalog.CodeDiskInUse},
		"two controllers": {func(l *lab) {
			l.nvme("nvme1", play{})
			l.nvme("nvme2", play{})
			l.Params.Disks = l.Params.Disks[:2]
			dir := "devices/virtual/nvme-subsystem/nvme-subsys0"
			l.disk("nvme1n1", dir+"/nvme1n1", map[string]string{"nsid": "1"})
			l.link(dir+"/nvme1n1/device", dir)
			l.put("sys/"+dir+"/serial", serial+"1\n")
			l.put("sys/"+dir+"/model", model+"\n")
			l.Params.Disks[1].NGUID = ""
			for _, c := range []string{"nvme1", "nvme2"} {
				l.put("sys/class/nvme-subsystem/nvme-subsys0/"+c, "")
			}
		}, taskcatalog.CodeDiskMultipath},

		"a namespace that is not named": {func(l *lab) {
			l.nvme("nvme1", play{})
			l.namespace("nvme1", 2)
			l.Params.Disks = l.Params.Disks[:2]
		}, taskcatalog.CodeDiskControllerShared},
		"a namespace that is not attached": {func(l *lab) { l.nvme("nvme1", play{OACS: 1 << 3, Hidden: []int{7}}) }, taskcatalog.CodeDiskControllerShared},
		"another drive answers": {func(l *lab) {
			l.nvme("nvme1", play{})
			p := erasetest.Read(filepath.Join(l.root, "play/nvme1.json"))
			p.Serial = "other"
			erasetest.Write(filepath.Join(l.root, "play/nvme1.json"), p)
		}, taskcatalog.CodeDiskDiffers},
		"another disk answers": {second(func(l *lab) {
			p := erasetest.Read(filepath.Join(l.root, "play/sdb.json"))
			p.Serial = "other"
			erasetest.Write(filepath.Join(l.root, "play/sdb.json"), p)
		}), taskcatalog.CodeDiskDiffers},
		"its controller does not answer":  {func(l *lab) { l.nvme("nvme1", play{Refuse: []string{"id-ctrl"}}) }, taskcatalog.CodeDiskUnreadable},
		"its controller talks nonsense":   {func(l *lab) { l.nvme("nvme1", play{Garbage: []string{"id-ctrl"}}) }, taskcatalog.CodeDiskUnreadable},
		"its namespaces cannot be listed": {func(l *lab) { l.nvme("nvme1", play{Refuse: []string{"list-ns"}}) }, taskcatalog.CodeDiskUnreadable},
		"the kernel opens another in its place": {second(func(l *lab) {
			l.change = func(f *file) {
				if f.name == "sdb" {
					f.number = "8:0"
				}
			}
		}), taskcatalog.CodeDiskChanged},
		"the kernel opens one of another size": {second(func(l *lab) {
			l.change = func(f *file) {
				if f.name == "sdb" {
					f.size += 512
				}
			}
		}), taskcatalog.CodeDiskChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.nvme("nvme0", play{SANICAP: 7, OACS: formats, Log: []int{sanitizeDone}})
			c.set(l)
			l.refused(c.code)
		})
	}
}

func TestADiskThatADPUShowsIsErasedWhereTheSKUSaysSo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{})
	l.put("sys/class/nvme/nvme0/device/vendor", "0x15b3\n")
	l.Params.DPUEmulatedOK = true
	if d := l.good().Disks[0]; d.Verdict != taskcatalog.VerdictClean || l.holds("nvme0n1") {
		t.Errorf("%+v", d)
	}
}

func TestADiskIsKnownByAnyOfItsNames(t *testing.T) {
	t.Parallel()
	const nguid = "36344630-5290-4269-0025-384500000001"
	for _, d := range []taskcatalog.DiskName{
		{Serial: " " + serial + "0 "},
		{NGUID: strings.ToUpper(nguid)},
		{NGUID: strings.ReplaceAll(nguid, "-", "")},
		{WWN: "eui." + strings.ReplaceAll(nguid, "-", "")},
		{WWN: nguid},
		{Serial: serial + "0", WWN: "EUI." + nguid, NGUID: nguid},
	} {
		l := newLab(t)
		l.nvme("nvme0", play{})
		d.Model, d.SizeBytes = model, labSize
		l.Params.Disks = []taskcatalog.DiskName{d}
		if row := l.good().Disks[0]; row.Name != "nvme0n1" {
			t.Errorf("%+v: %+v", d, row)
		}
	}
}

// A drive with a single controller that could have more hangs on its subsystem.
func TestADriveThatCouldHaveTwoControllersIsOneWhereItHasOne(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{OACS: formats})
	dir := "devices/virtual/nvme-subsystem/nvme-subsys0"
	l.disk("nvme0n1", dir+"/nvme0n1", map[string]string{"nsid": "1"})
	l.link(dir+"/nvme0n1/device", dir)
	l.put("sys/"+dir+"/serial", serial+"0\n")
	l.put("sys/"+dir+"/model", model+"\n")
	l.put("sys/class/nvme-subsystem/nvme-subsys0/nvme0", "")
	l.put("sys/class/nvme-subsystem/nvme-subsys0/nvme0n1", "")
	l.ok(os.RemoveAll(filepath.Join(l.root, "sys/devices/pci0000:00/0000:00:00.0/nvme/nvme0/nvme0n1")))
	l.put("sys/devices/pci0000:00/0000:00:00.0/nvme/nvme0/nvme0c0n1/hidden", "1\n")
	l.Params.Disks[0].NGUID = ""
	if d := l.good().Disks[0]; d.Method != taskcatalog.MethodNVMeFormatErase || l.holds("nvme0n1") {
		t.Errorf("%+v", d)
	}
}

// A disk that passed the judgement may have changed when its turn comes.
func TestADiskIsLookedAtAgainRightBeforeItIsTouched(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *lab){
		"pulled":           func(l *lab) { l.ok(os.Remove(filepath.Join(l.root, "sys/block/nvme0n1"))) },
		"another serial":   func(l *lab) { l.put("sys/class/nvme/nvme0/serial", "other\n") },
		"another size":     func(l *lab) { l.put("sys/block/nvme0n1/size", "8\n") },
		"another number":   func(l *lab) { l.put("sys/block/nvme0n1/dev", "8:0\n") },
		"over the network": func(l *lab) { l.put("sys/class/nvme/nvme0/transport", "tcp\n") },
		"held":             func(l *lab) { l.put("sys/class/block/nvme0n1/holders/dm-0", "") },
		"swap":             func(l *lab) { l.put("proc/swaps", "Filename Type Size Used Priority\n/dev/nvme0n1 partition 1 0 -2\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.nvme("nvme0", play{SANICAP: 2, Log: []int{sanitizeDone}})
			judged := false
			l.change = func(*file) { judged = true }
			l.touched = func(string) { // first called after the open
				if judged {
					judged = false
					change(l)
				}
			}
			res, _, err := l.do(t.Context())
			if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskNotErased || res == nil {
				t.Fatalf("%v", err)
			}
			d := res.Disks[0]
			if d.Verdict != taskcatalog.VerdictInconclusive || d.Method != taskcatalog.MethodNone || d.Code != taskcatalog.CodeDiskChanged && d.Code != taskcatalog.CodeDiskUnreadable {
				t.Errorf("%+v", d)
			}
			if len(l.ran()) > 0 || !l.holds("nvme0n1") {
				t.Errorf("it was touched: %q", l.ran())
			}
		})
	}
}

// A namespace created after the judgement would be erased with the others.
func TestAControllerIsAskedForItsNamespacesAgain(t *testing.T) {
	t.Parallel()
	done := play{SANICAP: 2, OACS: 1<<3 | formats, Log: []int{sanitizeDone}}
	for name, c := range map[string]struct {
		play play
		come func(l *lab)
	}{
		"sanitize, one more":     {done, func(l *lab) { l.namespace("nvme0", 2) }},
		"sanitize, one unseen":   {done, func(l *lab) { l.becomes("nvme0", func(p *play) { p.Hidden = []int{7} }) }},
		"format, one unseen":     {play{OACS: 1<<3 | formats}, func(l *lab) { l.becomes("nvme0", func(p *play) { p.Hidden = []int{7} }) }},
		"overwrite, one more":    {play{}, func(l *lab) { l.namespace("nvme0", 2) }},
		"another drive answers":  {done, func(l *lab) { l.becomes("nvme0", func(p *play) { p.Serial = "other" }) }},
		"it does not answer now": {done, func(l *lab) { l.becomes("nvme0", func(p *play) { p.Refuse = []string{"list-ns"} }) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.nvme("nvme0", c.play)
			l.change = func(*file) { c.come(l) } // opened: all are judged
			res, _, err := l.do(t.Context())
			if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskNotErased {
				t.Fatalf("%v", err)
			}
			if d := res.Disks[0]; d.Verdict != taskcatalog.VerdictInconclusive || d.Method != taskcatalog.MethodNone {
				t.Errorf("%+v", d)
			}
			if len(l.ran()) > 0 || !l.holds("nvme0n1") {
				t.Errorf("it was touched: %q", l.ran())
			}
		})
	}
}

func TestTheProbeSaysWhatTheDrivesSay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{Before: sanitizeRunning, Log: []int{sanitizeRunning}})
	l.nvme("nvme1", play{SANICAP: 7, Before: sanitizeDone})
	l.ata("sda", sataPath, play{Supported: true, Password: "ours"})
	l.names(taskcatalog.DiskName{Serial: "gone", Model: "X", SizeBytes: 1})
	said := Probe(t.Context(), l.Machine, l.Commands, l.Params.Disks)
	for _, want := range []string{"nvme0n1 (" + serial + "0): a sanitize runs inside the drive, at 49 %", "sda (WD-sda): the disk has an ATA password", "disk gone: this machine has no such disk", "none of the task's disks counts as erased"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
	if strings.Contains(said, "nvme1n1") || len(l.ran()) > 0 {
		t.Errorf("%q, %q", said, l.ran())
	}
}

func loadOption(number uint32, start, size uint64) []byte {
	raw := binary.LittleEndian.AppendUint32(nil, 7)
	raw = binary.LittleEndian.AppendUint32(raw, 1)
	raw = binary.LittleEndian.AppendUint16(raw, 12+42+4)
	for _, c := range utf16.Encode([]rune("debian\x00")) {
		raw = binary.LittleEndian.AppendUint16(raw, c)
	}
	raw = append(raw, 2, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0) // ACPI
	raw = append(raw, 4, 1, 42, 0)
	raw = binary.LittleEndian.AppendUint32(raw, number)
	raw = binary.LittleEndian.AppendUint64(raw, start)
	raw = binary.LittleEndian.AppendUint64(raw, size)
	raw = append(raw, make([]byte, 16)...)
	return append(raw, 2, 2, 0x7f, 0xff, 4, 0)
}

// A drive without a medium whose serial cannot be read is a disk that nobody knows, and the others
// are erased all the same.
func TestADiskOfWhichNothingCanBeReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ata("sda", sataPath, play{})
	const dead = "devices/pci0000:00/0000:00:1f.2/ata9/host9/target9:0:0/9:0:0:0"
	l.disk("sdz", dead+"/block/sdz", nil)
	l.put("sys/"+dead+"/block/sdz/size", "0\n")
	l.link(dead+"/block/sdz/device", dead)
	l.ok(os.MkdirAll(filepath.Join(l.root, "sys", dead, "wwid"), 0o755)) // reading it fails
	all, unread, err := system{l.Machine}.disks()
	l.ok(err)
	if len(all) != 2 || all[1] == nil || all[1].name != "sdz" || unread[all[1]] == nil {
		t.Fatalf("disks are %+v, unread %v", all, unread)
	}
	if _, _, err := l.do(t.Context()); err != nil {
		t.Errorf("sda is not erased: %v", err)
	}
}
