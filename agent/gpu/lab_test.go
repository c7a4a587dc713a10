package gpu_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/gpu/nvidia"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/fakegpu"
)

// This test binary is also the child, so that the tests use a process that loads real shared
// libraries.
const childWord = "gpu-helper-of-the-test"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childWord {
		os.Exit(gpu.Child([]gpu.Vendor{nvidia.New()}, time.Now, [32]byte{1}))
	}
	if len(os.Args) > 2 && os.Args[1] == gpu.HolderWord {
		gpu.Hold(os.Args[2])
	}
	os.Exit(m.Run())
}

var nonce = []byte("0123456789abcdef0123456789abcdef")

const devices = 8

// lab is a machine of fake GPUs and a helper that queries them.
type lab struct {
	*fakegpu.Machine
	*gpu.Helper
	t *testing.T
}

// newLab makes eight GPUs of 16 MiB, 2 MiB of them reserved by the driver, and adds these lines to
// the config.
func newLab(t *testing.T, config ...string) *lab {
	t.Helper()
	l := &lab{t: t}
	m, err := fakegpu.New(t.TempDir(), base(config)...)
	if err != nil {
		t.Fatal(err)
	}
	l.Machine, l.Helper = m, gpu.NewHelper("hostler-agent", childWord)
	l.Helper.Env = m.Env()
	l.Deadline, l.Silence, l.Grace = time.Minute, time.Minute, 10*time.Second
	return l
}

func base(config []string) []string {
	return append([]string{"devices 8", "memory 16M", "reserved 2M"}, config...)
}

func (l *lab) faults(config ...string) {
	l.t.Helper()
	if err := l.Configure(base(config)...); err != nil {
		l.t.Fatal(err)
	}
}

// device is GPU i of the machine.
func (l *lab) device(i int) gpu.Device {
	l.t.Helper()
	s := l.Survey(l.t.Context(), "nvidia")
	if i >= len(s.GPUs) {
		l.t.Fatalf("%d GPUs are there, not %d: %+v", len(s.GPUs), i+1, s.Libraries)
	}
	return gpu.Device{Vendor: "nvidia", UUID: s.GPUs[i].UUID}
}

func (l *lab) scrub(d gpu.Device) (gpu.ScrubResult, error) {
	return l.Scrub(l.t.Context(), d, gpu.ScrubOptions{Nonce: nonce}, nil)
}

func (l *lab) probe(d gpu.Device, percent uint64) (gpu.ProbeResult, error) {
	return l.Probe(l.t.Context(), d, gpu.ProbeOptions{FreePercent: percent}, nil)
}

func (l *lab) state(d gpu.Device) gpu.State {
	l.t.Helper()
	s, err := l.State(l.t.Context(), d)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// tenant starts a tenant's program on a device and waits until its token is in the memory. The
// program ends with the test or when the returned function is called.
func (l *lab) tenant(d gpu.Device, bytes string) (pid int, end func()) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	cmd := exec.CommandContext(ctx, filepath.Join(l.Libs, "fakegpu-tenant"), bytes, "SECRET-OF-A-TENANT", "stay")
	cmd.Env = append(l.Machine.Env(), "CUDA_VISIBLE_DEVICES="+d.UUID)
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	end = func() {
		cancel()
		_ = cmd.Wait()
	}
	l.t.Cleanup(end)
	ready := make([]byte, 6)
	if _, err := out.Read(ready); err != nil {
		l.t.Fatalf("the tenant did not start: %v", err)
	}
	return cmd.Process.Pid, end
}

// smi runs the machine's nvidia-smi.
func (l *lab) smi(args ...string) (string, int) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), filepath.Join(l.Libs, "nvidia-smi"), args...)
	cmd.Env = l.Machine.Env()
	out, _ := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

func codeOf(err error) taskcatalog.Code {
	if err == nil {
		return ""
	}
	return taskcatalog.CodeOf(err, "no_code")
}

func excluded(list []gpu.Exclusion, reason string) uint64 {
	i := slices.IndexFunc(list, func(e gpu.Exclusion) bool { return e.Reason == reason })
	if i < 0 {
		return 0
	}
	return list[i].Bytes
}
