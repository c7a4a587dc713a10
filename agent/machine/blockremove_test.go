package machine

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// blocks creates a /sys/block with LVM on a loop device, and unused devices.
func blocks(t *testing.T) (*Machine, string) {
	t.Helper()
	m, dir := newMachine(t)
	for name, text := range map[string]string{
		"loop0/dev": "7:0\n", "loop0/loop/backing_file": "/home/mallory/disk image\n", "loop0/holders/dm-0": "",
		"loop1/dev": "7:1\n",
		"dm-0/dev":  "253:0\n", "dm-0/dm/name": "evil-lv\n", "dm-0/slaves/loop0": "",
		"md0/dev": "9:0\n", "md0/md/level": "raid1\n", "md0/slaves/vdb": "",
		"zram0/dev": "252:0\n", "zram0/disksize": "0\n", "vda/dev": "254:0\n",
	} {
		write(t, filepath.Join(dir, "sys/block", name), text)
	}
	return m, dir
}

func TestSetUpDevicesSayWhatLiesOnWhat(t *testing.T) {
	m, _ := blocks(t)
	got, err := m.SetUpDevices()
	must(t, err)
	found := map[string]SetUpDevice{}
	for _, d := range got {
		found[d.Name] = d
	}
	want := map[string]SetUpDevice{
		"loop0": {Object: "loop//home/mallory/disk image", Name: "loop0", Number: "7:0", Held: true},
		"dm-0":  {Object: "dm/evil-lv", Name: "dm-0", Number: "253:0", Slaves: []string{"loop0"}},
		"md0":   {Object: "md/md0 raid1", Name: "md0", Number: "9:0", Slaves: []string{"vdb"}},
	}
	if !reflect.DeepEqual(found, want) {
		t.Errorf("got %+v", found)
	}
}

// A tenant with root may have replaced the device's node.
func TestANodeThatIsNotTheDeviceIsNotSpokenTo(t *testing.T) {
	for name, plant := range map[string]func(node string) error{
		"a file":         func(node string) error { return os.WriteFile(node, nil, 0o600) },
		"a link":         func(node string) error { return os.Symlink("/dev/null", node) },
		"another device": func(node string) error { return unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 200))) },
		"a character device": func(node string) error {
			return unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(7, 0)))
		},
		"nothing": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			m, dir := blocks(t)
			must(t, os.MkdirAll(filepath.Join(dir, "dev/mapper"), 0o755))
			if err := plant(filepath.Join(dir, "dev/loop0")); err != nil {
				t.Skip(err)
			}
			write(t, filepath.Join(dir, "dev/mapper/control"), "")
			for _, d := range []SetUpDevice{{Object: "loop/x", Name: "loop0", Number: "7:0"}, {Object: "dm/evil", Name: "dm-0"}, {Object: "vdo/x", Name: "vda"}} {
				if err := m.RemoveDevice(d); err == nil || strings.Contains(err.Error(), "inappropriate ioctl") {
					t.Errorf("%s was spoken to: %v", d.Object, err)
				}
			}
		})
	}
}
