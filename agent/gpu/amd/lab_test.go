package amd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/gpu/amd"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/fakegpu"
)

// childEnv makes this test binary the child that loads the libraries; helperWord makes it the
// agent's own helper.
const (
	childEnv   = "HOSTLER_AMD_TEST_CHILD"
	helperWord = "gpu-helper-of-the-test"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == helperWord {
		os.Exit(gpu.Child([]gpu.Vendor{amd.New(nil)}, time.Now, [32]byte{1}))
	}
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	os.Exit(m.Run())
}

// request is a request to a child, and answer its outcome.
type request struct {
	Do    string
	UUID  string
	UUIDs []string
	Want  gpu.Settings
}

type answer struct {
	GPUs       []taskcatalog.GPUFacts
	Libraries  []taskcatalog.LibraryFacts
	Holders    []gpu.Holder
	State      gpu.State
	Deviations []gpu.Deviation
	Scrub      scrub

	Code    taskcatalog.Code
	Message string
}

func child() {
	runtime.LockOSThread()
	var r request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		panic(err)
	}
	v := amd.New(nil)
	var a answer
	var err error
	switch r.Do {
	case "survey":
		a.GPUs, a.Libraries, err = v.Survey()
	case "holders":
		a.Holders, err = v.Holders(r.UUID)
	case "state":
		a.State, err = v.State(r.UUID)
	case "apply":
		a.Deviations, err = v.Apply(r.UUID, r.Want)
	case "reset":
		err = v.Reset(r.UUIDs)
	case "clean":
		err = v.CleanLocal(r.UUID)
	case "scrub":
		a.Scrub, err = scrubAll(v, r.UUID)
	case "plant":
		err = plant(v, r.UUID)
	case "hold":
		if err = plant(v, r.UUID); err == nil {
			fmt.Println("holding")
			select {}
		}
	}
	if err == nil {
		err = v.Close()
	}
	if err != nil {
		a.Code, a.Message = taskcatalog.CodeOf(err, "no_code"), err.Error()
	}
	json.NewEncoder(os.Stdout).Encode(a)
}

// lab is a machine of fake GPUs.
type lab struct {
	t          *testing.T
	state, lib string
}

var allLibraries = []string{"libamd_smi.so", "libamdhip64.so", "libhiprtc.so"}

// newLab makes a machine with the libraries given and a config of these lines.
func newLab(t *testing.T, libs []string, config ...string) *lab {
	t.Helper()
	built, err := fakegpu.Build()
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, state: t.TempDir(), lib: t.TempDir()}
	for _, name := range libs {
		if err := os.Symlink(filepath.Join(built, name), filepath.Join(l.lib, name)); err != nil {
			t.Fatal(err)
		}
	}
	l.configure(config...)
	return l
}

func (l *lab) configure(lines ...string) {
	l.t.Helper()
	config := append([]string{"vendor amd", "devices 2", "memory 16M", "reserved 1M"}, lines...)
	// The last line of a key wins.
	if err := os.WriteFile(filepath.Join(l.state, "config"), []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// env is the environment of a child. Without GORACE the race detector would delay each child's end
// by a second.
func (l *lab) env() []string {
	return []string{"FAKEGPU_DIR=" + l.state, "LD_LIBRARY_PATH=" + l.lib, "GORACE=atexit_sleep_ms=0"}
}

func (l *lab) command(ctx context.Context, r request) *exec.Cmd {
	l.t.Helper()
	raw, err := json.Marshal(r)
	if err != nil {
		l.t.Fatal(err)
	}
	c := exec.CommandContext(ctx, os.Args[0])
	c.Env = append(l.env(), childEnv+"=1")
	c.Stdin = bytes.NewReader(raw)
	return c
}

// ask lets a child execute a request.
func (l *lab) ask(r request) answer {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
	defer cancel()
	c := l.command(ctx, r)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	var a answer
	if err == nil {
		err = json.Unmarshal(out, &a)
	}
	if err != nil {
		l.t.Fatalf("%s: %v\n%s%s", r.Do, err, out, stderr.String())
	}
	return a
}

// must is ask without an allowed error.
func (l *lab) must(r request) answer {
	l.t.Helper()
	a := l.ask(r)
	if a.Code != "" {
		l.t.Fatalf("%s: %s: %s", r.Do, a.Code, a.Message)
	}
	return a
}

// tenants is a copy of this program: children that run this program's own file would count as the
// agent's helpers.
func (l *lab) tenants() string {
	l.t.Helper()
	raw, err := os.ReadFile("/proc/self/exe")
	name := filepath.Join(l.t.TempDir(), "tenant")
	if err == nil {
		err = os.WriteFile(name, raw, 0o755)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return name
}

// hold starts a tenant's process that takes all memory of a GPU. The process ends with the test or
// when the returned function is called.
func (l *lab) hold(uuid string) (pid int, end func()) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	c := l.command(ctx, request{Do: "hold", UUID: uuid})
	c.Path = l.tenants()
	out, err := c.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		l.t.Fatal(err)
	}
	end = sync.OnceFunc(func() { cancel(); c.Wait() })
	l.t.Cleanup(end)
	line := make([]byte, len("holding\n"))
	if _, err := out.Read(line); err != nil || string(line) != "holding\n" {
		l.t.Fatalf("the holder says %q: %v", line, err)
	}
	return c.Process.Pid, end
}

// died returns the signal that ended a child; zero if the child ended by itself.
func (l *lab) died(ctx context.Context, r request) syscall.Signal {
	l.t.Helper()
	var exit *exec.ExitError
	err := l.command(ctx, r).Run()
	if err == nil || !errors.As(err, &exit) {
		return 0
	}
	return exit.Sys().(syscall.WaitStatus).Signal()
}

func (l *lab) uuids() []string {
	l.t.Helper()
	var all []string
	for _, g := range l.must(request{Do: "survey"}).GPUs {
		all = append(all, g.UUID)
	}
	return all
}
