package scrub

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// A process that cannot be inspected fully is not ended, and leaves no GPU clean.
func TestAProcessThatCannotBeLookedAtLeavesNoGPUClean(t *testing.T) {
	t.Parallel()
	l := newLab(t, "amd")
	cmd := sleeper(t)
	l.Openers = func(*machine.Machine) ([]gpu.Opener, error) {
		return []gpu.Opener{{PID: cmd.Process.Pid, Name: "tenant", Unseen: "cannot look at its descriptors"}}, nil
	}
	res := l.good()
	for i := range l.Params.Expected {
		if g := l.of(res, i); g.Verdict != taskcatalog.VerdictInconclusive || g.Code != taskcatalog.CodeGPUHolderPresent {
			t.Errorf("GPU %d is %s %s (%s)", i, g.Verdict, g.Code, g.Message)
		}
	}
	if !alive(l, cmd.Process.Pid) {
		t.Error("the process was ended")
	}
}

// A process whose /proc entry is mounted over has not ended.
func TestAProcessThatIsCoveredLeavesNoGPUClean(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	if err := l.survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Scrub.Machine = lay(t, map[string]string{"proc/4242/other": ""})
	l.Openers = func(*machine.Machine) ([]gpu.Opener, error) {
		return []gpu.Opener{{PID: 4242, Unseen: "something covers it"}, {PID: 4243, Unseen: "it has ended since"}}, nil
	}
	holders, err := l.holders(t.Context(), l.units)
	if err != nil || len(holders) != 1 || holders[0].unsure == "" || holders[0].out.Outcome != "unseen" || !holders[0].holds(l.units[1]) {
		t.Errorf("%+v, %v", holders, err)
	}
}

// sleeper is a process that does nothing.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return cmd
}

func alive(l *lab, pid int) bool {
	p, err := l.Scrub.Machine.Process(pid)
	return err == nil && p.State != "Z"
}

func TestAHolderIsEndedAndNamed(t *testing.T) {
	t.Parallel()
	for how, c := range map[string]struct {
		outcome string
		grace   int
	}{"": {"terminated", 60}, "ignore-sigterm": {"killed", 1}} {
		l := newLab(t, "nvidia")
		l.Params.Policy.HolderGraceSeconds = c.grace
		var args []string
		if how != "" {
			args = append(args, how)
		}
		cmd := l.tenant(1, args...)
		g := l.want(l.good(), 1, taskcatalog.VerdictClean, "")
		if len(g.Holders) != 1 || g.Holders[0].PID != cmd.Process.Pid || g.Holders[0].Outcome != c.outcome || g.Holders[0].Via != "library" {
			t.Errorf("%q: %+v", how, g.Holders)
		}
		if l.left(1) != 0 {
			t.Errorf("%q: what the tenant left is still there", how)
		}
	}
}

func TestAHolderThatMayStayKeepsItsGPUFromBeingTouched(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	cmd := l.tenant(1)
	l.Params.Policy.KeepHolders = true
	g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent)
	if g.CoveredBytes != nil || l.left(1) == 0 || !strings.Contains(g.Message, strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("%+v, %d tokens left", g, l.left(1))
	}
}

// The library may list a process by its number in another PID namespace. The process with this
// number here is a different process, and is left alone.
func TestANumberOfAnotherNamespaceEndsNobodyHere(t *testing.T) {
	t.Parallel()
	bystander := sleeper(t)
	for name, pid := range map[string]int{"nobody here": 4194000, "somebody else here": bystander.Process.Pid, "the first of all": 1, "this process": os.Getpid()} {
		l := newLab(t, "nvidia")
		l.faults("fault.0 holder " + strconv.Itoa(pid))
		g := l.want(l.good(), 0, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent)
		if len(g.Holders) != 1 || g.Holders[0].Outcome != "unseen" || g.Holders[0].Name != "" {
			t.Errorf("%s: %+v", name, g.Holders)
		}
		if !alive(l, bystander.Process.Pid) {
			t.Fatalf("%s: a bystander was ended", name)
		}
	}
}

// A remaining helper holds a GPU. The agent ends its own helpers itself.
func TestTheAgentsOwnHelperIsNotEndedAsATenants(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	cmd := exec.CommandContext(t.Context(), helperPath, "gpu", "helper")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	l.holds(cmd.Process.Pid)
	g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent)
	if len(g.Holders) != 1 || g.Holders[0].Outcome != "kept" || !alive(l, cmd.Process.Pid) {
		t.Errorf("%+v", g.Holders)
	}
}

// holds makes a process hold the device files of GPU 1 open.
func (l *lab) holds(pid int) {
	l.Openers = func(*machine.Machine) ([]gpu.Opener, error) {
		if !alive(l, pid) {
			return nil, nil
		}
		return []gpu.Opener{{PID: pid, Nodes: []string{"/dev/nvidia1", "/dev/nvidiactl"}}}, nil
	}
}

// A process with root may move into any cgroup, and take any name.
func TestOnlyTheFabricManagerItselfMayHoldAGPU(t *testing.T) {
	program, err := exec.LookPath("sleep")
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		t.Fatal(err)
	}
	was := managers
	t.Cleanup(func() { managers = was })
	for name, c := range map[string]struct {
		program string
		isMain  bool
		stays   bool
	}{
		"the service itself":                  {program, true, true},
		"its program, and not its process":    {program, false, false},
		"its process, and not its program":    {"/usr/bin/nv-fabricmanager", true, false},
		"neither its process nor its program": {"/usr/bin/nv-fabricmanager", false, false},
	} {
		managers = []manager{{"nvidia-fabricmanager.service", c.program}}
		l := newLab(t, "nvidia")
		cmd := sleeper(t)
		l.holds(cmd.Process.Pid)
		l.systemd.main = map[string]int{"nvidia-fabricmanager.service": map[bool]int{true: cmd.Process.Pid, false: os.Getpid()}[c.isMain]}
		g := l.want(l.good(), 1, taskcatalog.VerdictClean, "")
		if alive(l, cmd.Process.Pid) != c.stays {
			t.Errorf("%s: stays is %t: %+v", name, !c.stays, g.Holders)
		}
	}
}

func TestAManagerThatComputesIsAHolder(t *testing.T) {
	l := newLab(t, "nvidia")
	cmd := l.tenant(1)
	program, err := l.Scrub.Machine.Exe(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	was := managers
	t.Cleanup(func() { managers = was })
	managers = []manager{{"nvidia-fabricmanager.service", program}}
	l.systemd.main = map[string]int{"nvidia-fabricmanager.service": cmd.Process.Pid}
	l.Params.Policy.KeepHolders = true
	l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent)
}

// A process that uses AMD's compute driver may hold memory although it closed every file.
func TestAProcessAtTheComputeDriverIsAHolder(t *testing.T) {
	t.Parallel()
	l := newLab(t, "amd")
	if err := l.survey(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.Scrub.Machine = lay(t, map[string]string{
		"sys/class/kfd/kfd/proc/4242/pasid": "1\n",
		"proc/4242/stat":                    "4242 (python) S 1 4242 4242 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0\n",
		"proc/4242/status":                  "Name:\tpython\nUid:\t1001\t1001\t1001\t1001\n",
	})
	holders, err := l.holders(t.Context(), l.units)
	if err != nil || len(holders) != 1 || holders[0].out.Name != "python" || !holders[0].holds(l.units[1]) {
		t.Errorf("%+v, %v", holders, err)
	}
}

// A partition's own card node gives access to its GPU's memory. If the partition's GPU is unknown,
// the card may belong to any GPU.
func TestWhoeverHasACardOfAPartitionIsAHolderOfItsGPU(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   []int // GPUs that have the node
		want []bool
	}{
		"known": {[]int{1}, []bool{false, true}}, "unknown": {[]int{0, 1}, []bool{true, true}}, "no partition of a GPU": {nil, []bool{false, false}},
	} {
		l := newLab(t, "amd")
		if err := l.survey(t.Context()); err != nil {
			t.Fatal(err)
		}
		cmd := sleeper(t)
		l.Openers = func(*machine.Machine) ([]gpu.Opener, error) {
			return []gpu.Opener{{PID: cmd.Process.Pid, Nodes: []string{"/dev/dri/card46"}}}, nil
		}
		for _, i := range c.of {
			l.units[i].before.Nodes = append(l.units[i].before.Nodes, "/dev/dri/card46", "/dev/dri/renderD162")
		}
		holders, err := l.holders(t.Context(), l.units)
		if err != nil {
			t.Fatal(err)
		}
		for i, u := range l.units {
			if got := slices.ContainsFunc(holders, func(h *holder) bool { return h.holds(u) }); got != c.want[i] {
				t.Errorf("%s: GPU %d is held: %v", name, i, got)
			}
		}
	}
}

// A process that takes a GPU between two steps is found before the next step that requires no
// holder.
func TestAHolderThatComesBetweenStepsIsFoundBeforeTheNext(t *testing.T) {
	t.Parallel()
	for step, when := range map[string]string{profiles.StepOverwrite: "before the overwrite", profiles.StepProbe: "before the probe", profiles.StepHealth: "after the scrub"} {
		l := newLab(t, "nvidia")
		came := false
		l.Progress = func(now string, _, _, _ int, _ string) {
			if now == step && !came {
				came = true
				l.tenant(1, "ignore-sigterm")
			}
		}
		if g := l.want(l.good(), 1, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent); !strings.Contains(g.Message, when) {
			t.Errorf("one that comes at %s: %s", step, g.Message)
		}
	}
}

// byCommand runs steps as a program of the site in place of the agent's own code.
func byCommand(t *testing.T, vendor, program string, steps ...string) *profiles.Set {
	t.Helper()
	all := text(vendor)
	for _, step := range steps {
		at := strings.Index(all, step+": ") + len(step) + 2
		end := at + strings.Index(all[at:], "\n")
		all = all[:at] + "site" + all[end:]
	}
	all = strings.Replace(all, "command_profiles: []\n", "command_profiles:\n  - id: site\n    command: "+program+"\n    user: root\n    timeout_seconds: 10\n    expected_exit_codes: [0]\n", 1)
	s, problems := profiles.Parse(profiles.File{Name: "test.yaml", Text: []byte(all)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s
}

// A site's command runs in addition to the agent's own look, and never in its place.
func TestACommandInPlaceOfAStepHidesNothing(t *testing.T) {
	t.Parallel()
	steps := []string{profiles.StepQuiesce, profiles.StepVerify, profiles.StepProbe, profiles.StepHealth}
	for name, c := range map[string]struct {
		does    func(l *lab)
		verdict taskcatalog.Verdict
		code    taskcatalog.Code
	}{
		"nothing is wrong": {func(*lab) {}, taskcatalog.VerdictClean, ""},
		"a holder":         {func(l *lab) { l.tenant(1); l.Params.Policy.KeepHolders = true }, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHolderPresent},
		"old data":         {func(l *lab) { l.faults("fault.1 keeps_chunk 8388608"); l.plant(1, 8<<20) }, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUResidue},
		"the kernel's log": {func(l *lab) {
			slot := strings.TrimSuffix(l.Params.Expected[1].PCIAddress, ".0")
			l.KernelLog = func() ([]string, error) { return []string{"NVRM: Xid (PCI:" + slot + "): 48"}, nil }
		}, taskcatalog.VerdictNotClean, taskcatalog.CodeGPUHardwareFault},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "nvidia")
			l.Profiles = byCommand(t, "nvidia", "/usr/bin/true", steps...)
			c.does(l)
			l.want(l.good(), 1, c.verdict, c.code)
		})
	}
}

func TestAQuiesceThatFailsOrIsMissingLeavesTheGPUAlone(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]*profiles.Set{
		"it fails": byCommand(t, "nvidia", "/usr/bin/false", profiles.StepQuiesce), "it is left out": without(t, "nvidia", profiles.StepQuiesce),
	} {
		l := newLab(t, "nvidia")
		l.plant(1, 8<<20)
		l.Profiles = set
		res := l.good()
		if g := l.of(res, 1); res.Verdict != taskcatalog.VerdictInconclusive || g.Code != taskcatalog.CodeGPUHolderPresent || g.CoveredBytes != nil || l.left(1) != 1 {
			t.Errorf("%s: %s, %+v", name, res.Verdict, g)
		}
	}
}
