package plan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/resolver"
	"github.com/hostler/hostler/agent/steps"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// eachKind has a step of each kind that works on this package's machine, with the code of the kind. The
// pull alone is the test's: it takes the secret.
const eachKind = `[` + aFile + `,
	{"id":"up","kind":"service.control","with":{"unit":"demo.service","action":"start"}},
	{"id":"again","kind":"service.control","with":{"unit":"demo.service","action":"restart"}},
	{"id":"tool","kind":"command.exec_allowlisted","with":{"command":"tool"},"command":{"id":"tool","command":"/usr/bin/tool","user":"root","timeout_seconds":60}},
	{"id":"active","kind":"health.check","with":{"check":"unit","target":"demo.service"}},
	` + mints + `,
	{"id":"pull","kind":"artifact.pull_blob","with":{"from":"s3","source":"models/w","digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","root":"/var/lib/models","name":"w","credential":{"from":"steps.key"}}},
	{"id":"boot","kind":"host.reboot"},
	{"id":"driver","kind":"gpu.driver.validate"},{"id":"runtime","kind":"gpu.runtime.check"},
	{"id":"fabric","kind":"gpu.fabric.verify"},{"id":"containers","kind":"gpu.container_runtime.check"}]`

// machine is a lab on which each of these steps does well.
type machine struct {
	*lab
	pulled, boots, minted int
	done                  map[string]int // how often the code of a step has ended well
}

func newMachine(t *testing.T) *machine {
	m := &machine{lab: newLab(t), done: map[string]int{}}
	ok := func(err error) { hosttest.OK(t, err) }
	raw, err := os.ReadFile("/bin/true")
	ok(err)
	ok(os.Chmod(m.dir, 0o755))
	ok(os.MkdirAll(filepath.Join(m.dir, "usr/bin"), 0o755))
	ok(os.WriteFile(filepath.Join(m.dir, "usr/bin/tool"), raw, 0o755))
	m.host.Commands, err = command.New(m.dir, time.Now)
	ok(err)
	t.Cleanup(func() { _ = m.host.Commands.Close() })
	set, problems := profiles.Parse(profiles.File{Name: "gpu.yaml", Text: []byte(`
hardware_profiles:
  - name: any
    match: {}
    overrides: {gpu.driver.validate: tool, gpu.runtime.check: tool, gpu.fabric.verify: builtin:none, gpu.container_runtime.check: tool}
command_profiles:
  - {id: tool, command: /usr/bin/tool, user: root, timeout_seconds: 60}
`)})
	if problems != nil {
		t.Fatal(problems)
	}
	set.Version = "v1"
	m.host.Profiles = resolver.Open(t.TempDir())
	_, err = m.host.Profiles.Apply(set)
	ok(err)
	m.host.Facts = func(context.Context) (taskcatalog.Facts, error) { return taskcatalog.Facts{}, nil }
	m.systemd.OnStart = func(unit string) error { m.systemd.On = map[string]bool{unit: true}; return nil }
	m.reboot()
	m.systemd.OnReboot = func() error {
		m.reboot()
		crash()
		return nil
	}
	m.mint = func(string, string) ([]byte, error) { m.minted++; return []byte(aSecret), nil }
	m.kinds["artifact.pull_blob"] = steps.Kind{Do: func(_ context.Context, s *steps.Step) (steps.Proof, error) {
		m.pulled++
		return steps.Proof{Output: "/var/lib/models/w"}, s.Args.Secret("credential").Use(func([]byte) error { return nil })
	}}
	return m
}

func (m *machine) reboot() {
	m.boots++
	hosttest.Put(m.T, m.dir, "proc/sys/kernel/random/boot_id", fmt.Sprintf("boot-%d\n", m.boots))
}

// watch calls pass around each write of the journal, and around the code of each step.
func (m *machine) watch(p *taskcatalog.OperationPlan, pass func(where string)) {
	m.book.put = func(done bool) error { pass(fmt.Sprintf("write, done %t", done)); return nil }
	for _, s := range p.Steps {
		k, _ := m.kind(s.Kind)
		if _, watched := m.kinds[s.Kind+" watched"]; watched {
			continue
		}
		do := k.Do
		k.Do = func(ctx context.Context, s *steps.Step) (steps.Proof, error) {
			pass("before " + s.ID)
			proof, err := do(ctx, s)
			if err == nil {
				m.done[s.ID]++
			}
			pass("after " + s.ID)
			return proof, err
		}
		m.kinds[s.Kind], m.kinds[s.Kind+" watched"] = k, k
	}
}

// At every boundary of every kind the process ends, and another goes on. The operation ends once, with
// the rows that are true. A step whose success the node or the journal proves is not done again.
func TestAProcessThatEndsAnywhereIsFollowedByOneThatEndsTheOperation(t *testing.T) {
	needsRoot(t)
	for _, attempts := range []int{1, 2} {
		for boundary := 1; ; boundary++ {
			m := newMachine(t)
			p := aPlan(t, eachKind)
			for i := range p.Steps {
				p.Steps[i].Attempts = attempts
			}
			if attempts == 1 { // with two attempts the programs run
				for _, kind := range []string{"command.exec_allowlisted", "gpu.driver.validate", "gpu.runtime.check", "gpu.container_runtime.check"} {
					m.kinds[kind] = gives("", new(int))
				}
			}
			passed, where := 0, ""
			m.watch(p, func(what string) {
				if passed++; passed == boundary {
					where = what
					crash()
				}
			})
			e, processes := outcome{crashed: true}, 0
			for ; e.crashed && processes < 4; processes++ {
				e = m.run(t.Context(), "t-1", p)
			}
			name := fmt.Sprintf("%d attempts, boundary %d, %s: %s", attempts, boundary, where, story(e))
			if e.crashed {
				t.Fatalf("%s: it does not end", name)
			}
			m.judge(name, p, attempts, e)
			if where == "" { // beyond the last
				if passed < 4*len(p.Steps) || processes != 2 {
					t.Fatalf("only %d boundaries, %d processes", passed, processes)
				}
				break
			}
		}
	}
}

// judge holds the rows against what was done.
func (m *machine) judge(name string, p *taskcatalog.OperationPlan, attempts int, e outcome) {
	m.Helper()
	well, interrupted := map[string]int{}, ""
	for _, r := range e.result.Steps {
		switch {
		case r.Status == taskcatalog.StepSucceeded, r.Status == taskcatalog.StepSkipped && r.ID == "fabric":
			well[r.ID]++
		case r.Status == taskcatalog.StepFailed && r.ErrorCode == taskcatalog.CodeStepInterrupted && interrupted == "":
			interrupted = r.ID
		default:
			m.Errorf("%s: %+v", name, r)
		}
	}
	if attempts == 1 && interrupted != "" { // nothing proves that the interrupted attempt had succeeded
		if taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeStepFailed {
			m.Errorf("%s: %v", name, e.err)
		}
		return
	}
	if e.err != nil {
		m.Errorf("%s: %v", name, e.err)
	}
	for _, s := range p.Steps {
		most := 1
		if s.ID == "key" && m.minted > 1 { // for the step that still needed it
			most = 2
		}
		if n := well[s.ID]; n < 1 || n > most {
			m.Errorf("%s: %s has %d rows that succeeded", name, s.ID, n)
		}
		if n := m.done[s.ID]; n > 1 && s.ID != interrupted && s.ID != "key" {
			m.Errorf("%s: %s was done %d times", name, s.ID, n)
		}
	}
	if m.boots != 2 {
		m.Errorf("%s: the machine restarted %d times", name, m.boots-1)
	}
}
