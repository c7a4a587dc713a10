package facts

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// drivers lists the loaded kernel drivers for GPUs.
func drivers(m *machine.Machine) ([]taskcatalog.DriverFacts, error) {
	var all []taskcatalog.DriverFacts
	for _, name := range []string{"nvidia", "amdgpu", "i915", "xe"} {
		dir := path.Join("/sys/module", name)
		there, err := m.Has(dir)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		d := taskcatalog.DriverFacts{Name: name, Version: attribute(m, dir+"/version")}
		if d.Parameters, err = parameters(m, name, dir); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// parameters are a driver's settings. NVIDIA's driver lists its settings in a single file,
// including those from the command line of a tenant's modprobe.
func parameters(m *machine.Machine, driver, dir string) (map[string]string, error) {
	found := map[string]string{}
	if driver == "nvidia" {
		found = pairs(attribute(m, "/proc/driver/nvidia/params"))
	}
	names, err := m.Names(dir + "/parameters")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		found[name] = attribute(m, path.Join(dir, "parameters", name))
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found, nil
}

// pairs reads lines of "key: value".
func pairs(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			found[strings.TrimSpace(key)] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return found
}

// libraryDirs are the library directories of distributions and vendors.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/opt/rocm/lib"}

// computeRuntime names the installed compute library.
func computeRuntime(m *machine.Machine) (string, error) {
	for _, r := range []struct{ name, library string }{
		{"cuda", "libcuda.so.1"},
		{"rocm", "libamdhip64.so"},
		{"level_zero", "libze_intel_gpu.so.1"},
	} {
		for _, dir := range libraryDirs {
			if there, err := m.Has(path.Join(dir, r.library)); there || err != nil {
				return r.name, err
			}
		}
	}
	return "none", nil
}

// containerRuntime names the installed engine. Docker includes containerd.
func containerRuntime(m *machine.Machine) (string, error) {
	for _, r := range []struct{ name, program string }{
		{"docker", "dockerd"},
		{"containerd", "containerd"},
		{"other", "crio"},
		{"other", "podman"},
	} {
		for _, dir := range []string{"/usr/bin", "/usr/sbin", "/usr/local/bin"} {
			if there, err := m.Has(path.Join(dir, r.program)); there || err != nil {
				return r.name, err
			}
		}
	}
	return "none", nil
}

// osRelease reads os-release(5).
func osRelease(m *machine.Machine) (map[string]string, error) {
	raw, err := m.ReadFile("/etc/os-release", 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	found := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			found[key] = strings.Trim(value, `"'`)
		}
	}
	return found, err
}
