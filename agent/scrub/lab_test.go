package scrub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/fakegpu"
)

// helperPath is a program with the agent's child process that queries the GPUs, and nothing else of
// the agent.
var helperPath string

func TestMain(m *testing.M) { os.Exit(withHelper(m)) }

func withHelper(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hostler-scrub-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	helperPath = filepath.Join(dir, "hostler-agent")
	build := exec.Command("go", "build", "-o", helperPath, "testdata/helper/main.go")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the helper: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

const token = "SECRET-OF-A-TENANT"

// gpuCount is how many GPUs a lab has: a faulty GPU and a healthy one. A scrub runs some twenty
// processes per GPU; these take most of the tests' time.
const gpuCount = 2

// lab is a machine of fake GPUs of 32 MiB.
type lab struct {
	*fakegpu.Machine
	*Scrub
	t       *testing.T
	vendor  string
	systemd *units
	ledger  *memory
}

func newLab(t *testing.T, vendor string, config ...string) *lab {
	t.Helper()
	l := &lab{t: t, vendor: vendor, ledger: &memory{}}
	l.systemd = &units{lab: l, active: map[string]bool{}}
	var err error
	if l.Machine, err = fakegpu.New(t.TempDir(), l.lines(config)...); err != nil {
		t.Fatal(err)
	}
	m, err := machine.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	runner, err := command.New("/", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = runner.Close(), m.Close() })
	helper := gpu.NewHelper("hostler-agent", "gpu", "helper")
	helper.Path, helper.Env = helperPath, l.Env()
	helper.Deadline, helper.Silence = time.Minute, time.Minute
	l.Scrub = &Scrub{
		Machine: m, Systemd: l.systemd, Stopped: l.ledger, Helper: helper, Commands: runner,
		Openers:   func(*machine.Machine) ([]gpu.Opener, error) { return nil, nil },
		KernelLog: l.Machine.Kmsg,
		Clearing:  func(*machine.Machine, string) (string, error) { return "", nil },
		Profiles:  set(t, vendor), Facts: taskcatalog.Facts{Keys: map[string]string{"gpu.vendor": vendor}},
		Now: time.Now, Log: zaptest.NewLogger(t), Nonce: []byte("0123456789abcdef0123456789abcdef"),
		Params:  &taskcatalog.GPUScrubParams{Policy: &taskcatalog.GPUScrubPolicy{MinCoveragePercent: 80, HolderGraceSeconds: 1, FabricWaitSeconds: 1}},
		Vendors: []string{"nvidia", "amd"}, Interval: 5 * time.Millisecond,
	}
	l.expectAll()
	return l
}

func (l *lab) lines(config []string) []string {
	return append([]string{"vendor " + l.vendor, "devices " + strconv.Itoa(gpuCount), "memory 32M", "reserved 2M"}, config...)
}

// faults changes the machine's config.
func (l *lab) faults(config ...string) {
	l.t.Helper()
	if err := l.Configure(l.lines(config)...); err != nil {
		l.t.Fatal(err)
	}
}

// expectAll makes the task expect the present GPUs.
func (l *lab) expectAll() {
	l.t.Helper()
	l.Params.Expected = nil
	for _, g := range l.Helper.Survey(l.t.Context(), l.vendor).GPUs {
		state, err := l.Helper.State(l.t.Context(), gpu.Device{Vendor: g.Vendor, UUID: g.UUID})
		if err != nil {
			l.t.Fatal(err)
		}
		var instances []string
		for _, i := range g.Instances {
			instances = append(instances, i.UUID)
		}
		l.Params.Expected = append(l.Params.Expected, taskcatalog.BaselineGPU{
			Vendor: g.Vendor, UUID: g.UUID, Serial: g.Serial, PCIAddress: g.PCIAddress,
			MemoryBytes: g.MemoryBytes, ReservedBytes: g.ReservedBytes, Settings: state.Settings, Instances: instances,
		})
	}
}

func (l *lab) uuid(i int) string { return l.Params.Expected[i].UUID }

// run carries the plan out and returns the result, which is set even with an error.
func (l *lab) run(ctx context.Context) (*taskcatalog.GPUScrubResult, taskcatalog.Report, error) {
	l.t.Helper()
	res, report, err := l.Do(ctx)
	if len(l.ledger.names) > 0 && l.systemd.fail == nil {
		l.t.Errorf("%v were stopped and not put back", l.ledger.names)
	}
	if report.Verdict != res.Verdict {
		l.t.Errorf("the evidence says %s and the result %s", report.Verdict, res.Verdict)
	}
	return res, report, err
}

// good runs a scrub that must come to an end.
func (l *lab) good() *taskcatalog.GPUScrubResult {
	l.t.Helper()
	res, _, err := l.run(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return res
}

// of returns the result of the expected GPU number i.
func (l *lab) of(res *taskcatalog.GPUScrubResult, i int) taskcatalog.GPUScrubbed {
	l.t.Helper()
	at := slices.IndexFunc(res.GPUs, func(g taskcatalog.GPUScrubbed) bool { return g.UUID == l.uuid(i) })
	if at < 0 {
		l.t.Fatalf("GPU %d is not in the result", i)
	}
	return res.GPUs[at]
}

// want checks a single GPU, and checks that all others are clean.
func (l *lab) want(res *taskcatalog.GPUScrubResult, i int, verdict taskcatalog.Verdict, code taskcatalog.Code) taskcatalog.GPUScrubbed {
	l.t.Helper()
	for j := range l.Params.Expected {
		g := l.of(res, j)
		if j == i && (g.Verdict != verdict || g.Code != code) {
			l.t.Errorf("GPU %d is %s %s (%s), want %s %s", j, g.Verdict, g.Code, g.Message, verdict, code)
		}
		if j != i && g.Verdict != taskcatalog.VerdictClean {
			l.t.Errorf("GPU %d is %s %s (%s), though nothing is wrong with it", j, g.Verdict, g.Code, g.Message)
		}
	}
	return l.of(res, i)
}

// plant leaves a tenant's token in the memory of a GPU.
func (l *lab) plant(i int, offset int64) {
	l.t.Helper()
	if err := l.Plant(i, offset, []byte(token)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) left(i int) int {
	l.t.Helper()
	n, err := l.Count(i, token)
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// tenant starts a tenant's program on a GPU and waits until the program holds it.
func (l *lab) tenant(i int, how ...string) *exec.Cmd {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), filepath.Join(l.Libs, "fakegpu-tenant"), append([]string{strconv.Itoa(4 << 20), token, "stay"}, how...)...)
	cmd.Env = append(l.Env(), "CUDA_VISIBLE_DEVICES="+l.uuid(i))
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	_, err = out.Read(make([]byte, 6))
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // reap the process: no zombie stays
		close(ended)
	}()
	l.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	if err != nil {
		l.t.Fatalf("the tenant did not start: %v", err)
	}
	return cmd
}

// set is a set of profiles without programs: the test machine does not have the vendors' programs.
func set(t *testing.T, vendor string) *profiles.Set {
	t.Helper()
	s, problems := profiles.Parse(profiles.File{Name: "test.yaml", Text: []byte(text(vendor))})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s
}

func text(vendor string) string {
	reset := map[string]string{"nvidia": "builtin:none", "amd": "builtin:amd.reset"}[vendor]
	text := "hardware_profiles:\n  - name: here\n    match: { gpu.vendor: " + vendor + " }\n    overrides:\n      gpu.driver.validate: builtin:none\n"
	for _, step := range []string{"quiesce", "overwrite", "verify", "probe", "restore", "health"} {
		text += "      gpu.scrub." + step + ": builtin:" + vendor + "." + step + "\n"
	}
	return text + "      gpu.scrub.reset: " + reset + "\n  - name: fallback\n    match: {}\n    overrides: {}\ncommand_profiles: []\n"
}

// memory is Stopped without a disk.
type memory struct{ names, unnamed, off []string }

func (m *memory) PutStopped(name string) error {
	if !slices.Contains(m.names, name) {
		m.names = append(m.names, name)
	}
	return nil
}
func (m *memory) StoppedUnits() ([]string, error) { return slices.Clone(m.names), nil }
func (m *memory) PutUnnamed(name string) error {
	if !slices.Contains(m.unnamed, name) {
		m.unnamed = append(m.unnamed, name)
	}
	return nil
}
func (m *memory) UnnamedUnits() ([]string, error) { return slices.Clone(m.unnamed), nil }
func (m *memory) ForgetUnnamed() error {
	m.unnamed = nil
	return nil
}

func (m *memory) PutPersistent(uuid string) error {
	if !slices.Contains(m.off, uuid) {
		m.off = append(m.off, uuid)
	}
	return nil
}
func (m *memory) PersistentGPUs() ([]string, error) { return slices.Clone(m.off), nil }
func (m *memory) DeletePersistent(uuid string) error {
	m.off = slices.DeleteFunc(m.off, func(u string) bool { return u == uuid })
	return nil
}

func (m *memory) DeleteStopped(name string) error {
	m.names = slices.DeleteFunc(m.names, func(n string) bool { return n == name })
	return nil
}

// units is a systemd of a few units.
type units struct {
	lab      *lab
	main     map[string]int // main processes
	active   map[string]bool
	asked    []string
	fail     error // of Start
	failStop error
	onStop   func(name string)
	files    map[string][]string // files and additions, for units that are not a package's
}

func (u *units) Files(_ context.Context, name string) (string, []string, error) {
	if files, ok := u.files[name]; ok {
		return files[0], files[1:], nil
	}
	return "/usr/lib/systemd/system/" + name, nil, nil
}

func (u *units) MainPID(_ context.Context, name string) (int, error) { return u.main[name], nil }

func (u *units) Active(_ context.Context, name string) (bool, error) { return u.active[name], nil }

func (u *units) Stop(_ context.Context, name string) error {
	if !slices.Contains(slices.Concat(u.lab.ledger.names, u.lab.ledger.unnamed), name) {
		u.lab.t.Errorf("%s is stopped before the ledger knows", name)
	}
	u.active[name], u.asked = false, append(u.asked, "stop "+name)
	if u.onStop != nil {
		u.onStop(name)
	}
	return u.failStop
}

func (u *units) Start(_ context.Context, name string) error {
	if u.fail == nil {
		u.active[name] = true
	}
	u.asked = append(u.asked, "start "+name)
	return u.fail
}

var errTest = errors.New("refused by the test")
