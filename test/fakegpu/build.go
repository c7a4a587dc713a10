package fakegpu

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

//go:embed *.c *.h
var sources embed.FS

// targets lists the sources of each library and program, besides vram.c.
var targets = []struct {
	name    string
	sources []string
	flags   []string
}{
	{"libnvidia-ml.so.1", []string{"nvml.c", "nvidia.c"}, []string{"-shared"}},
	{"libcuda.so.1", []string{"cuda.c", "nvidia.c"}, []string{"-shared"}},
	{"nvidia-smi", []string{"nvidia-smi.c", "nvidia.c"}, nil},
	{"nvidia-ctk", []string{"nvidia-ctk.c", "nvidia.c"}, nil},
	{"libamd_smi.so", []string{"amdsmi.c"}, []string{"-shared"}},
	{"libamdhip64.so", []string{"hip.c"}, []string{"-shared"}},
	{"libhiprtc.so", []string{"hiprtc.c"}, []string{"-shared"}},
	{"amd-smi", []string{"amd-smi.c"}, nil},
	{"amd-ctk", []string{"amd-ctk.c"}, nil},
	{"fakegpu-nodes", []string{"nodes.c"}, nil},
	{"fakegpu-tenant", []string{"tenant.c"}, nil},
	{"fakegpu-tenant-amd", []string{"tenant-amd.c"}, nil},
}

// flags hide every symbol outside the ABI: two of these libraries in one process must not find each
// other's functions.
var flags = []string{"-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-deprecated-declarations", "-Werror"}

// Build builds the libraries and programs, or finds an earlier build of the same sources, and
// returns their folder. Build needs gcc, and needs go to find the header of go-nvml.
var Build = sync.OnceValues(build)

func build() (string, error) {
	header, err := headers()
	if err != nil {
		return "", err
	}
	digest, err := digestOf(header)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "hostler", "fakegpu-"+digest)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "fakegpu-building-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := compile(work, header); err != nil {
		return "", err
	}
	// The first process to finish wins; the others find an identical folder.
	if err := os.Rename(filepath.Join(work, "out"), dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}

func compile(work, header string) error {
	if err := os.CopyFS(filepath.Join(work, "src"), sources); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(work, "out"), 0o755); err != nil {
		return err
	}
	for _, t := range targets {
		args := append(append([]string{}, flags...), t.flags...)
		args = append(args, "-I", header, "-o", filepath.Join(work, "out", t.name))
		if strings.HasPrefix(t.name, "lib") {
			args = append(args, "-Wl,-soname,"+t.name)
		}
		for _, s := range append(t.sources, "vram.c") {
			args = append(args, filepath.Join(work, "src", s))
		}
		if out, err := command("gcc", append(args, "-lpthread", "-ldl")...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot build the fake %s with gcc: %w\n%s", t.name, err, out)
		}
	}
	return nil
}

// command is a step of the build, which Ctrl-C in a terminal does not reach: it would look like a
// failure of the build.
func command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// headers returns the folder of go-nvml's nvml.h.
func headers() (string, error) {
	out, err := command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find go-nvml's header: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "pkg", "nvml"), nil
}

func digestOf(header string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, header, flags, targets)
	names, err := fs.Glob(sources, "*")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		raw, err := sources.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, name, len(raw))
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
