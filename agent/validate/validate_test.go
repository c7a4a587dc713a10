package validate

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// newLook returns a validation of a host against a baseline; nil takes a baseline.
func newLook(h *host.Host, base *taskcatalog.Baseline) *validation {
	v := &validation{
		Run: &host.Run{Host: h}, m: h.Machine, base: base, takesBaseline: base == nil,
		users: map[uint32]string{0: "root", 1000: "ubuntu"}, homes: map[string]uint32{"/home/ubuntu": 1000},
		owned: map[uint64]struct{}{}, files: map[string][]taskcatalog.BaselineFile{}, baseKeys: map[*[]string]map[string]bool{},
	}
	v.accounts, _ = h.Accounts.List()
	return v
}

type look = func(context.Context, *validation) ([]item, error)

// keys returns the names of a look's items that the baseline does not have.
func keys(t *testing.T, v *validation, l look) []string {
	t.Helper()
	items, err := l(t.Context(), v)
	hosttest.OK(t, err)
	var all []string
	for _, it := range items {
		if !v.has(it) {
			all = append(all, it.row+" "+it.key)
		}
	}
	slices.Sort(all)
	return all
}

// baseOf takes a baseline with some looks.
func baseOf(t *testing.T, h *host.Host, looks ...look) *taskcatalog.Baseline {
	t.Helper()
	v := newLook(h, nil)
	b := &taskcatalog.Baseline{}
	for _, l := range looks {
		items, err := l(t.Context(), v)
		hosttest.OK(t, err)
		for _, it := range items {
			names := list(b, it.row)
			*names = append(*names, it.key)
		}
	}
	for _, files := range v.files {
		b.Files = append(b.Files, files...)
	}
	return b
}

// The EFI system partition is a separate file system on every machine that boots by EFI, and its
// files boot the machine.
func TestABootLoaderOnAFileSystemOfItsOwnIsLookedAt(t *testing.T) {
	if !hosttest.Jail(t) {
		return
	}
	for _, d := range []string{"/etc", "/boot/efi", "/boot/network"} {
		hosttest.OK(t, os.MkdirAll(d, 0o755))
	}
	hosttest.Put(t, "/", "boot/grub/grub.cfg", "menu")
	hosttest.OK(t, unix.Mount("esp", "/boot/efi", "tmpfs", 0, ""))
	hosttest.Put(t, "/", "boot/efi/EFI/debian/shimx64.efi", "shim")
	m, err := machine.Open("/")
	hosttest.OK(t, err)
	h := &host.Host{Machine: m, Accounts: &hosttest.Ledger{}}
	base := baseOf(t, h, lookBoot)
	if got := keys(t, newLook(h, base), lookBoot); len(got) > 0 {
		t.Fatalf("an untouched /boot has findings: %q", got)
	}
	hosttest.Put(t, "/", "boot/efi/EFI/debian/shimx64.efi", "implant")
	hosttest.Put(t, "/", "boot/efi/EFI/BOOT/implant.efi", "x")
	want := []string{"boot /boot/efi/EFI/BOOT/implant.efi", "boot /boot/efi/EFI/debian/shimx64.efi"}
	if got := keys(t, newLook(h, base), lookBoot); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestScratchIsLookedAtByEveryPartOfItsPattern(t *testing.T) {
	h, dir := hosttest.Used(t)
	h.Scratch = []string{"/share*/scratch"}
	hosttest.Put(t, dir, "share0/scratch/.keep", "")
	base := baseOf(t, h, lookScratch)
	hosttest.Put(t, dir, "share0/scratch/weights", "a tenant's")
	hosttest.OK(t, os.Symlink("/etc", filepath.Join(dir, "share1")))
	hosttest.Put(t, dir, "etc/scratch/x", "behind a link")
	if got := keys(t, newLook(h, base), lookScratch); !slices.Equal(got, []string{"scratch scratch//share0/scratch/weights"}) {
		t.Errorf("found %q", got)
	}
}

// A tenant with root can create a directory that looks like a service's own.
func TestADirectoryNamedAsAServicesOwnHidesNothing(t *testing.T) {
	h, dir := hosttest.Used(t)
	boot := strings.ReplaceAll(hosttest.BootID, "-", "")
	private := func(id, rest string) string { return "tmp/systemd-private-" + id + "-ntp.service-AbCd12/" + rest }
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, private(boot, "tmp")), 0o755))
	hosttest.Put(t, dir, private(boot, "tmp/own"), "of the service")
	hosttest.OK(t, os.Chmod(filepath.Join(dir, private(boot, "")), 0o700))
	base := baseOf(t, h, lookTemporary)
	if got := keys(t, newLook(h, base), lookTemporary); len(got) > 0 {
		t.Fatalf("a service's own has findings: %q", got)
	}
	// After a boot the same service has the same files under another name.
	again := filepath.Join(dir, strings.Replace(private(boot, ""), "AbCd12", "XyZw34", 1))
	hosttest.OK(t, os.Rename(filepath.Join(dir, private(boot, "")), again))
	if got := keys(t, newLook(h, base), lookTemporary); len(got) > 0 {
		t.Fatalf("a service's own has findings after a boot: %q", got)
	}
	hosttest.OK(t, os.WriteFile(filepath.Join(again, "tmp/weights"), nil, 0o600))
	hosttest.OK(t, os.WriteFile(filepath.Join(again, "beside"), nil, 0o600))
	hosttest.OK(t, os.MkdirAll(filepath.Join(dir, private(strings.Repeat("0", 32), "tmp")), 0o700))
	hosttest.OK(t, os.Chmod(filepath.Join(dir, private(strings.Repeat("0", 32), "")), 0o700))
	want := []string{
		"temporary temporary//tmp/" + filepath.Base(private(strings.Repeat("0", 32), "")),
		"temporary temporary/private ntp.service/beside", "temporary temporary/private ntp.service/tmp/weights",
	}
	if got := keys(t, newLook(h, base), lookTemporary); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestAVolumeNamedLikeAnEnginesFileIsFound(t *testing.T) {
	h, dir := hosttest.Used(t)
	hosttest.Put(t, dir, "var/lib/docker/volumes/metadata.db", "the engine's own")
	base := baseOf(t, h, lookContainers)
	for _, name := range []string{"evil.json", "evil.lock", "metadata.db2"} {
		hosttest.Put(t, dir, "var/lib/docker/volumes/"+name+"/_data/x", "a tenant's")
	}
	if got := keys(t, newLook(h, base), lookContainers); len(got) != 3 {
		t.Errorf("found %q", got)
	}
}

// A file in /run overrides a file in /etc, and lasts until a reboot.
func TestRulesInRunAreLookedAt(t *testing.T) {
	h, dir := hosttest.Used(t)
	base := baseOf(t, h, lookEtc)
	for row, name := range map[string]string{
		"udev": "run/udev/rules.d/99-implant.rules", "modprobe": "run/modprobe.d/implant.conf",
		"units": "run/systemd/user/implant.service", "config": "run/tmpfiles.d/implant.conf",
	} {
		hosttest.Put(t, dir, name, "x")
		if got := keys(t, newLook(h, base), lookEtc); !slices.Equal(got, []string{row + " /" + name}) {
			t.Errorf("found %q, want /%s in row %s", got, name, row)
		}
		hosttest.OK(t, os.Remove(filepath.Join(dir, name)))
	}
}

// A tenant without root can create as many names as there are inodes.
func TestALookKeepsABoundedNumberOfNames(t *testing.T) {
	h, dir := hosttest.Used(t)
	tmp, err := os.Open(filepath.Join(dir, "tmp"))
	hosttest.OK(t, err)
	defer tmp.Close()
	for i := range maxForeign + 50 {
		hosttest.OK(t, unix.Mknodat(int(tmp.Fd()), strconv.Itoa(i), unix.S_IFREG|0o4755, 0))
	}
	v := newLook(h, &taskcatalog.Baseline{})
	for name, l := range map[string]look{"temporary": lookTemporary, "setuid": lookFiles} {
		items, err := l(t.Context(), v)
		hosttest.OK(t, err)
		n := 0
		for _, it := range items {
			if it.row == name {
				n++
			}
		}
		if n == 0 || n > maxForeign+2 {
			t.Errorf("%d items of row %s are kept", n, name)
		}
		if !slices.ContainsFunc(items, func(it item) bool { return it.row == name && strings.Contains(it.key, "more") }) {
			t.Errorf("nobody is told that there is more in row %s", name)
		}
	}
}
