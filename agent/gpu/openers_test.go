package gpu

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

func TestADeviceFileIsKnownByItsNumber(t *testing.T) {
	sys := t.TempDir()
	if err := os.MkdirAll(filepath.Join(sys, "sys/dev/char"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/pci0000:00/0000:03:00.0/drm/card200", filepath.Join(sys, "sys/dev/char/226:200")); err != nil {
		t.Fatal(err)
	}
	m, err := machine.Open(sys)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	majors := parseMajors("Character devices:\n  1 mem\n195 nvidia-frontend\n511 nvidia-uvm\n236 kfd\n\nBlock devices:\n511 sd\n")
	cases := []struct {
		major, minor uint32
		want         string
	}{
		{195, 0, "/dev/nvidia0"},
		{195, 17, "/dev/nvidia17"},
		{195, 255, "/dev/nvidiactl"},
		{195, 254, "/dev/nvidia-modeset"},
		{511, 0, "/dev/nvidia-uvm"},
		{236, 0, "/dev/kfd"},
		{226, 128, "/dev/dri/renderD128"},
		{226, 0, "/dev/dri/card0"},
		{226, 200, "/dev/dri/card200"},
		{1, 3, ""},
		{999, 0, ""},
	}
	for _, c := range cases {
		if got := nodeOf(m, unix.Mkdev(c.major, c.minor), majors); got != c.want {
			t.Errorf("%d:%d is %q, want %q", c.major, c.minor, got, c.want)
		}
	}
}

// devices are character devices of any machine, in place of a GPU's: few processes have them open,
// and nobody maps them.
func devices(rdev uint64) string {
	switch rdev {
	case unix.Mkdev(1, 7): // /dev/full
		return "/dev/nvidia0"
	case unix.Mkdev(1, 5): // /dev/zero
		return "/dev/nvidia1"
	}
	return ""
}

func TestWhoeverHasADeviceFileIsFoundHoweverItIsHeld(t *testing.T) {
	m, err := machine.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for how, node := range map[string]string{
		"open": "/dev/nvidia0", "first thread ended": "/dev/nvidia0", "descriptors of a thread": "/dev/nvidia0",
		"mapped": "/dev/nvidia1", "mapped low": "/dev/nvidia1", "mapped, first thread ended": "/dev/nvidia1", "mapped among many": "/dev/nvidia1",
	} {
		t.Run(how, func(t *testing.T) {
			pid := holds(t, m, how)
			all, err := openers(m, devices)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(all, func(o Opener) bool { return o.PID == pid })
			if i < 0 || !slices.Equal(all[i].Nodes, []string{node}) || all[i].Unseen != "" {
				t.Errorf("process %d is not among %+v", pid, all)
			}
			if slices.ContainsFunc(all, func(o Opener) bool { return o.PID == os.Getpid() }) {
				t.Error("the process that looks is among those it finds")
			}
		})
	}
}

// A process that cannot be inspected fully is reported; only an ended process is left out.
func TestWhatCannotBeLookedAtIsListed(t *testing.T) {
	for name, c := range map[string]struct {
		put    func(dir string) error // into /proc/42
		nodes  []string
		unseen bool
	}{
		"one without a device":                   {func(dir string) error { return nil }, nil, false},
		"descriptors that do not open":           {func(dir string) error { return errors.Join(os.Remove(dir+"/task/42/fd"), loop(dir+"/task/42/fd")) }, nil, true},
		"threads that do not list":               {func(dir string) error { return errors.Join(os.RemoveAll(dir+"/task"), loop(dir+"/task")) }, nil, true},
		"a descriptor that cannot be looked at":  {func(dir string) error { return fd(dir, loopOf(dir)) }, nil, true},
		"mappings that do not read":              {func(dir string) error { return loop(dir + "/maps") }, nil, true},
		"a mapping that cannot be looked at":     {func(dir string) error { return mapping(dir, true, "/x") }, nil, true},
		"a mapping that is never where it is":    {func(dir string) error { return mapping(dir, false, "/x") }, nil, true},
		"no thread":                              {func(dir string) error { return os.RemoveAll(dir + "/task/42") }, nil, true},
		"nothing of it":                          {func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)) }, nil, true},
		"a closed descriptor":                    {func(dir string) error { return fd(dir, dir+"/none") }, nil, false},
		"memory of a GPU without its file":       {func(dir string) error { return dmabuf(dir, "drm") }, []string{"dma-buf:drm"}, false},
		"memory of NVIDIA's driver":              {func(dir string) error { return dmabuf(dir, "nvidia") }, []string{"dma-buf:nvidia"}, false},
		"memory of the host, named like a GPU's": {func(dir string) error { return dmabuf(dir, "system\nname:\tnvidia\nexp_name:\tnvidia") }, nil, false},
		"mapped memory of whoever":               {func(dir string) error { return mapping(dir, false, "/dmabuf:") }, []string{"dma-buf:mapped"}, false},
	} {
		root := t.TempDir()
		dir := root + "/proc/42"
		err := errors.Join(process42(dir), c.put(dir))
		if err != nil {
			t.Fatal(err)
		}
		m, err := machine.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		all, err := openers(m, devices)
		m.Close()
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.nodes == nil && !c.unseen:
			if len(all) != 0 {
				t.Errorf("%s: %+v", name, all)
			}
		case len(all) != 1 || !slices.Equal(all[0].Nodes, c.nodes) || (all[0].Unseen != "") != c.unseen:
			t.Errorf("%s: %+v", name, all)
		case all[0].Anywhere("nvidia") == c.unseen:
			t.Errorf("%s: at any GPU: %v", name, !c.unseen)
		}
	}
}

func loop(name string) error { return os.Symlink(path.Base(name), name) }

func loopOf(dir string) string {
	_ = loop(dir + "/loop")
	return dir + "/loop"
}

func fd(dir, to string) error { return os.Symlink(to, dir+"/task/42/fd/3") }

func mapping(dir string, present bool, name string) error {
	const at = "7f0000000000-7f0000001000"
	err := os.WriteFile(dir+"/maps", []byte(at+" rw-s 00000000 00:05 77 "+name+"\n"), 0o644)
	if present {
		return errors.Join(err, loop(dir+"/map_files/"+at))
	}
	return err
}

func dmabuf(dir, exporter string) error {
	return errors.Join(fd(dir, "/dmabuf:"), os.WriteFile(dir+"/task/42/fdinfo/3", []byte("pos:\t0\nflags:\t02\nsize:\t4096\ncount:\t2\nexp_name:\t"+exporter+"\n"), 0o644))
}

func TestTheCardOfAGPUIsItsOwnAsItsRenderNodeIs(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"card1", "renderD129", "version"} {
		if err := os.MkdirAll(filepath.Join(root, "sys/bus/pci/devices/0000:03:00.0/drm", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m, err := machine.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for address, want := range map[string][]string{"0000:03:00.0": {"/dev/dri/card1", "/dev/dri/renderD129"}, "0000:04:00.0": nil} {
		if got, err := DRMNodes(m, address); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", address, got, err)
		}
	}
}

func TestWhatBelongsToNoGPUAloneMayBeAtAnyOfItsVendor(t *testing.T) {
	for node, vendors := range map[string][]string{
		"/dev/nvidiactl": {"nvidia"}, "/dev/kfd": {"amd"}, "dma-buf:drm": {"nvidia", "amd"}, "dma-buf:amdgpu": {"amd"}, "/dev/nvidia0": nil, "/dev/dri/card0": nil,
	} {
		for _, vendor := range []string{"nvidia", "amd"} {
			if got := (Opener{Nodes: []string{node}}).Anywhere(vendor); got != slices.Contains(vendors, vendor) {
				t.Errorf("%s of %s: %v", node, vendor, got)
			}
		}
	}
}
