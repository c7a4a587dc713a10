package cloudinit

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rack gives the host disks: NAME TYPE SERIAL. A disk's content is a UUID in on/NAME, and its mount
// is a line in mounts/PLACE.
func (h *host) rack(lines string, holds map[string]string) {
	for _, dir := range []string{"on", "mounts"} {
		if err := os.MkdirAll(filepath.Join(h.root, dir), 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
	for disk, uuid := range holds {
		h.write("on/"+filepath.Base(disk), uuid, 0o644)
	}
	for line := range strings.Lines(lines) {
		h.write(strings.Fields(line)[0], "", 0o644)
	}
	disk := `for last; do :; done; disk='` + h.root + `/on/'${last##*/}; `
	h.program("lsblk", `case "$*" in *SERIAL*) cat <<'END'
`+lines+`END
;; *MOUNTPOINT*) for last; do :; done; grep -rqsx "$last" '`+h.root+`/mounts' && echo /data; exit 0;; *TYPE*) echo disk; echo part;; esac`)
	h.program("blockdev", "echo 3840755982336")
	h.program("wipefs", disk+`case "$*" in *--all*) rm -f "$disk";; *) [ ! -e "$disk" ] || echo 0x438,x,x,ext4;; esac`)
	h.program("blkid", disk+`[ -e "$disk" ] || exit 2; case "$*" in *--match-tag*) cat "$disk";; *) echo TYPE=ext4;; esac`)
	h.program("perl", `exec /usr/bin/perl "$1" "$2" "$3" '`+h.root+`'"$4"`)
	h.program("mkfs.ext4", disk+`echo "$4" >"$disk"`)
	h.program("mount", `echo "$3" >>'`+h.root+`/mounts/'"${4##*/}"`)
	h.program("findmnt", `grep -qsx "$2" '`+h.root+`/mounts/'"${4##*/}"`)
	h.write("etc/hostler-bootstrap/disks", rendered(h.t, whole(h.t))[bootstrapDir+"disks"].Content, 0o644)
}

const (
	twoDisks = "/dev/nvme0n1 disk S6ESNX0T100001\n/dev/nvme1n1 disk S6ESNX0T100002\n/dev/sda disk BOSS\n"
	foreign  = "6f0c5bd6-5c2f-4c5f-8d0a-0d1a0f2f7a11"
)

// touched matches the calls that change a disk.
var touched = regexp.MustCompile(`(?m)^(wipefs .*--all|mkfs|mount ).*`)

func TestDisksThatAreNotAsExpectedAreAllSpared(t *testing.T) {
	held := "disk S6ESNX0T100002 (/dev/nvme1n1) is mounted or held"
	for name, c := range map[string]struct {
		disks  string
		holds  map[string]string
		change func(h *host)
		says   string
	}{
		"missing":          {"/dev/nvme0n1 disk S6ESNX0T100001\n", nil, nil, "there is no disk with serial S6ESNX0T100002"},
		"two of one":       {twoDisks + "/dev/nvme2n1 disk S6ESNX0T100002\n", nil, nil, "more than one disk has serial S6ESNX0T100002"},
		"of other sizes":   {twoDisks, nil, func(h *host) { h.program("blockdev", "echo 1") }, "has 1 bytes, and not the 3840755982336 that MAAS found"},
		"known":            {twoDisks, map[string]string{"/dev/nvme1n1": foreign}, nil, "disk S6ESNX0T100002 (/dev/nvme1n1) holds something known, and overwrite_known_signatures is not set"},
		"known to wipefs":  {twoDisks, nil, func(h *host) { h.program("wipefs", "echo 0x0,x,x,LVM2_member") }, "holds something known"},
		"known to blkid":   {twoDisks, nil, func(h *host) { h.program("blkid", "echo TYPE=zfs_member") }, "holds something known"},
		"ambiguous":        {twoDisks, nil, func(h *host) { h.program("blkid", "exit 8") }, "holds something known"},
		"mounted":          {twoDisks, nil, func(h *host) { h.write("mounts/data", "/dev/nvme1n1\n", 0o644) }, held},
		"in a RAID":        {twoDisks, nil, func(h *host) { h.program("lsblk", lsblkWith("TYPE", "echo raid1")) }, "is mounted or held"},
		"held":             {twoDisks, nil, func(h *host) { h.write("sys/class/block/nvme1n1/holders/dm-0", "", 0o644) }, held},
		"held by a part":   {twoDisks, nil, func(h *host) { h.write("sys/class/block/nvme1n1/nvme1n1p1/holders/md0", "", 0o644) }, held},
		"refused":          {twoDisks, nil, func(h *host) { h.program("perl", `case "$4" in *nvme1n1) exit 16;; esac`) }, held},
		"not to be opened": {twoDisks, nil, func(h *host) { _ = os.Remove(filepath.Join(h.root, "dev/nvme1n1")) }, held},
		"mounts unknown":   {twoDisks, nil, func(h *host) { h.program("lsblk", lsblkWith("MOUNTPOINT", "exit 32")) }, "is mounted or held"},
		"kinds unknown":    {twoDisks, nil, func(h *host) { h.program("lsblk", lsblkWith("TYPE", "exit 32")) }, "is mounted or held"},
	} {
		for _, overwrite := range []bool{false, true} {
			if overwrite && strings.Contains(c.says, "known") {
				continue
			}
			h := newHost(t)
			h.rack(c.disks, c.holds)
			if overwrite {
				h.write("etc/hostler-bootstrap/disks-overwrite", "yes\n", 0o644)
			}
			if c.change != nil {
				c.change(h)
			}
			record, out := h.layer("disks")
			if !strings.HasPrefix(record, "failed\n") || !strings.Contains(record, c.says) {
				t.Errorf("%s: %q: %s", name, record, out)
			}
			if calls := h.read("calls"); touched.MatchString(calls) {
				t.Errorf("%s: a disk was touched:\n%s", name, calls)
			}
		}
	}
}

func lsblkWith(column, answer string) string {
	return "case \"$*\" in *SERIAL*) cat <<'END'\n" + twoDisks + "END\n;; *" + column + "*) " + answer + ";; *TYPE*) echo disk;; esac"
}

// made returns the disks on which file systems were made, each with its share.
func (h *host) made() []string {
	var made []string
	for line := range strings.Lines(h.read("calls")) {
		if words := strings.Fields(line); words[0] == "mkfs.ext4" {
			made = append(made, words[6]+" "+words[len(words)-1])
		}
	}
	return made
}

func TestDisksAreMadeOnceAndOverwrittenOnlyWhenTold(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		h := newHost(t)
		holds := map[string]string{}
		if overwrite {
			holds["/dev/nvme1n1"] = foreign
			h.write("etc/hostler-bootstrap/disks-overwrite", "yes\n", 0o644)
		}
		h.rack(twoDisks, holds)
		h.write("etc/fstab", "", 0o644)
		for range 2 {
			if record, out := h.layer("disks"); record != "done\n\n" {
				t.Fatalf("%q: %s", record, out)
			}
		}
		if made := h.made(); !slices.Equal(made, []string{"share1 /dev/nvme0n1", "share2 /dev/nvme1n1"}) {
			t.Errorf("file systems were made on %q", made)
		}
		if fstab := h.read("etc/fstab"); strings.Count(fstab, "\n") != 2 || !strings.Contains(fstab, h.root+"/share2 ext4 defaults,nofail 0 2\n") {
			t.Errorf("fstab is\n%s", fstab)
		}
		calls := h.read("calls")
		if strings.Contains(calls, "/dev/sda") {
			t.Error("a disk that nobody named was looked at")
		}
		if regexp.MustCompile(`(?m)^wipefs .*(-f|--force)`).MatchString(calls) {
			t.Errorf("a wipe does not ask the kernel for the disk alone:\n%s", calls)
		}
	}
}

// A check of all disks may be outdated when a disk's turn comes.
func TestADiskIsLookedAtAgainBeforeItIsTouched(t *testing.T) {
	for name, change := range map[string]struct{ does, says string }{
		"held since":         {"mkdir -p sys/class/block/nvme1n1/holders/dm-0", "is mounted or held"},
		"mounted since":      {"echo /dev/nvme1n1 >mounts/data", "is mounted or held"},
		"of another size":    {"echo 'echo 1' >bin/blockdev", "has 1 bytes"},
		"with a file system": {"echo " + foreign + " >on/nvme1n1", "holds something known"},
	} {
		h := newHost(t)
		h.rack(twoDisks, nil)
		h.program("mkfs.ext4", "echo \"$4\" >'"+h.root+"/on/nvme0n1'; cd '"+h.root+"'; "+change.does)
		if record, out := h.layer("disks"); !strings.HasPrefix(record, "failed\ndisk S6ESNX0T100002 (/dev/nvme1n1) ") || !strings.Contains(record, change.says) {
			t.Errorf("%s: %q: %s", name, record, out)
		}
		if made := h.made(); !slices.Equal(made, []string{"share1 /dev/nvme0n1"}) || strings.Contains(h.read("calls"), "--all /dev/nvme1n1") {
			t.Errorf("%s: it was touched:\n%s", name, h.read("calls"))
		}
		if h.read("var/lib/hostler-bootstrap/disks/S6ESNX0T100002") != "" {
			t.Errorf("%s: it is marked as begun", name)
		}
	}
}

// Wherever the layer is cut short, it continues. A complete file system, which may hold files by
// now, is not made again.
func TestADiskThatWasBegunIsGoneOnWith(t *testing.T) {
	for name, c := range map[string]struct {
		victim, does string
		again        []string
	}{
		"before the wipe":    {"wipefs", `case "$*" in *--all*nvme1n1) kill -9 $PPID;; esac`, []string{"share2 /dev/nvme1n1"}},
		"before the mkfs":    {"mkfs.ext4", `case "$*" in *nvme1n1) kill -9 $PPID; exit;; esac; `, []string{"share2 /dev/nvme1n1"}},
		"after the mkfs":     {"mkfs.ext4", `case "$*" in *nvme1n1) echo "$4" >on/nvme1n1; kill -9 $PPID; exit;; esac; `, []string{"share2 /dev/nvme1n1"}},
		"after fstab":        {"mount", `case "$*" in *share2) kill -9 $PPID; exit;; esac; `, nil},
		"after the mount":    {"mount", `case "$*" in *share2) echo "$3" >mounts/share2; kill -9 $PPID; exit;; esac; `, nil},
		"before it was said": {"sync", `[ "$*" != '' ] || [ ! -s mounts/share2 ] || kill -9 $PPID`, nil},
	} {
		for _, reboot := range []bool{false, true} {
			h := newHost(t)
			h.rack(twoDisks, nil)
			whole := h.read("bin/" + c.victim)
			h.program(c.victim, "cd '"+h.root+"'; "+c.does+"\n"+whole)
			if record, out := h.layer("disks"); record != "failed\nit ended by exit-code -1\n" {
				t.Fatalf("%s: it was not killed: %q: %s", name, record, out)
			}
			h.write("bin/"+c.victim, whole, 0o755)
			if reboot { // mounts the entries of fstab
				for _, share := range []string{"1", "2"} {
					mounts := ""
					if strings.Contains(h.read("etc/fstab"), "/share"+share+" ") {
						mounts = map[string]string{"1": "/dev/nvme0n1\n", "2": "/dev/nvme1n1\n"}[share]
					}
					h.write("mounts/share"+share, mounts, 0o644)
				}
			}
			h.write("calls", "", 0o644)
			if record, out := h.layer("disks"); record != "done\n\n" {
				t.Fatalf("%s, reboot %v: %q: %s", name, reboot, record, out)
			}
			if made := h.made(); !slices.Equal(made, c.again) {
				t.Errorf("%s, reboot %v: it called\n%s", name, reboot, h.read("calls"))
			}
			if h.read("mounts/share2") != "/dev/nvme1n1\n" || strings.Count(h.read("etc/fstab"), "\n") != 2 {
				t.Errorf("%s, reboot %v: mounted are %q, fstab is\n%s", name, reboot, h.read("mounts/share2"), h.read("etc/fstab"))
			}
		}
	}
}

// A mark records only our start on a disk, and nothing of later changes of the disk.
func TestWhatIsNotOursOnADiskThatWasBegunIsSpared(t *testing.T) {
	for name, c := range map[string]struct{ fstab, mounts, says string }{
		"begun":                  {"", "", "holds something known"},
		"whole":                  {"UUID=" + strings.Repeat("b", 36) + " /share2 ext4 defaults,nofail 0 2\n", "", "does not hold the file system that was made on it"},
		"mounted in its place":   {"", "mounts/share2", "does not hold the file system that was made on it"},
		"mounted somewhere else": {"", "mounts/data", "is mounted or held"},
	} {
		h := newHost(t)
		h.rack(twoDisks, map[string]string{"/dev/nvme1n1": foreign})
		h.write("var/lib/hostler-bootstrap/disks/S6ESNX0T100002", strings.Repeat("b", 36)+"\n", 0o644)
		h.write("etc/fstab", c.fstab, 0o644)
		if c.mounts != "" {
			h.write(c.mounts, "/dev/nvme1n1\n", 0o644)
		}
		if record, out := h.layer("disks"); !strings.HasPrefix(record, "failed\n") || !strings.Contains(record, c.says) {
			t.Errorf("%s: %q: %s", name, record, out)
		}
		if calls := h.read("calls"); touched.MatchString(calls) {
			t.Errorf("%s: a disk was touched:\n%s", name, calls)
		}
	}
}
