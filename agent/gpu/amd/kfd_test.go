package amd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/machine"
)

const instinct = `cpu_cores_count 0
simd_count 1216
domain 0
location_id 25344
gfx_target_version 90402
drm_render_minor 128
`

func TestKFDNames(t *testing.T) {
	for _, c := range []struct{ properties, pci, arch string }{
		{instinct, "0000:63:00.0", "gfx942"},
		{"simd_count 440\nlocation_id 536896257\ndomain 1\ngfx_target_version 90010\n", "0001:63:00.1", "gfx90a"},
		{"simd_count 192\nlocation_id 768\ngfx_target_version 110000\n", "0000:03:00.0", "gfx1100"},
	} {
		n, is := parseKFDNode(c.properties)
		if !is || n.pci != c.pci || (kfdNodes{n}).architecture(c.pci) != c.arch {
			t.Errorf("%q is %+v", c.properties, n)
		}
	}
	if _, is := parseKFDNode("cpu_cores_count 96\nsimd_count 0\n"); is {
		t.Error("a CPU is a GPU")
	}
}

// The nodes are the card's files and those of its partitions, and no other card's.
func TestNodesAreThoseOfOneGPU(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const pci = "0000:63:00.0"
	for _, name := range []string{"card1", "renderD128", "controlD64"} {
		write("sys/bus/pci/devices/"+pci+"/drm/"+name+"/dev", "226:1\n")
	}
	for device, names := range map[string][]string{
		"amdgpu_xcp.0": {"card46", "renderD130"}, // partition 1 of this GPU
		"amdgpu_xcp_1": {"card47", "renderD131"}, // of the other GPU, as newer kernels name it
		"serial8250":   {"card48"},
	} {
		for _, name := range names {
			write("sys/devices/platform/"+device+"/drm/"+name+"/dev", "226:1\n")
		}
	}
	write(kfdTopology+"/0/properties", "cpu_cores_count 96\nsimd_count 0\n")
	write(kfdTopology+"/1/properties", instinct)
	write(kfdTopology+"/2/properties", "simd_count 152\nlocation_id 268460800\ndrm_render_minor 130\n") // partition 1 of the same
	write(kfdTopology+"/3/properties", "simd_count 1216\nlocation_id 768\ndrm_render_minor 129\n")
	write(kfdTopology+"/4/properties", "simd_count 1216\nlocation_id 768\ndrm_render_minor 131\n")
	m, err := machine.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got, err := New(m).nodes(pci)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/dev/dri/card1", "/dev/dri/card46", "/dev/dri/renderD128", "/dev/dri/renderD130"}; !slices.Equal(got, want) {
		t.Errorf("the nodes are %v, want %v", got, want)
	}
	// A partition unknown to the compute driver may belong to any GPU.
	write("sys/devices/platform/amdgpu_xcp.29/drm/card60/dev", "226:1\n")
	write("sys/devices/platform/amdgpu_xcp.29/drm/renderD162/dev", "226:1\n")
	for _, address := range []string{pci, "0000:03:00.0"} {
		if got, err := New(m).nodes(address); err != nil || !slices.Contains(got, "/dev/dri/card60") || !slices.Contains(got, "/dev/dri/renderD162") {
			t.Errorf("the nodes of %s are %v, %v", address, got, err)
		}
	}
	if got, err := New(nil).nodes(pci); got != nil || err != nil {
		t.Errorf("no machine has nodes %v, %v", got, err)
	}
}

// sysfs comes from the kernel, but is still text: for any input the names are short and plain.
func FuzzKFDNode(f *testing.F) {
	f.Add(instinct)
	f.Add("simd_count 18446744073709551615\nlocation_id 18446744073709551615\ndomain 18446744073709551615\ngfx_target_version 18446744073709551615\n")
	f.Fuzz(func(t *testing.T, properties string) {
		n, is := parseKFDNode(properties)
		if !is {
			return
		}
		name := n.pci + (kfdNodes{n}).architecture(n.pci)
		if len(name) > 64 || strings.Trim(name, "0123456789abcdefgx:.") != "" {
			t.Errorf("%q", name)
		}
	})
}
