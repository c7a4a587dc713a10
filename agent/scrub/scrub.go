package scrub

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/machine"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Systemd is the part of systemd that a scrub needs.
type Systemd interface {
	MainPIDs
	Starter
	Active(ctx context.Context, unit string) (bool, error)
	// Files returns the file of a unit and the files that add to it.
	Files(ctx context.Context, unit string) (file string, additions []string, err error)
	Stop(ctx context.Context, unit string) error
}

// Stopped is the durable record of units that are stopped during a scrub.
type Stopped interface {
	PutStopped(unit string) error
	StoppedUnits() ([]string, error)
	DeleteStopped(unit string) error
	// The unnamed services held a GPU without being named, or use a daemon's name without being
	// from a package. They are not started again. The next scrub drops the record: by then the
	// scrub that stopped them is reported.
	PutUnnamed(unit string) error
	UnnamedUnits() ([]string, error)
	ForgetUnnamed() error
	Persistent
}

// Scrub is a run of the plan. The exported fields are its inputs, the others its findings.
type Scrub struct {
	Machine  *machine.Machine
	Systemd  Systemd
	Stopped  Stopped
	Helper   *gpu.Helper
	Openers  func(*machine.Machine) ([]gpu.Opener, error)
	Clearing func(m *machine.Machine, vendor string) (why string, err error) // ClearingOff
	Profiles *profiles.Set
	Commands *command.Runner
	Facts    taskcatalog.Facts
	// KernelLog returns the lines logged by the kernel since this scrub began, or why they cannot
	// be read in full.
	KernelLog func() ([]string, error)
	Now       func() time.Time
	Log       *zap.Logger
	// Progress reports how far the scrub is: see host.Run.
	Progress func(step string, index, total, percent int, message string)

	Nonce    []byte
	Params   *taskcatalog.GPUScrubParams
	Vendors  []string      // vendors whose GPUs are scrubbed
	Interval time.Duration // between two looks: a second in the field

	policy   taskcatalog.GPUScrubPolicy
	units    []*unit
	missing  []taskcatalog.BaselineGPU
	unlisted []taskcatalog.PCIDevice
	notes    []note
	records  []taskcatalog.StepRecord
	stopped  []taskcatalog.GPUInterrupted
}

// plan is the order of the steps. After a failure of the whole plan the rest is skipped; the
// stopped services are started in any case.
var plan = []string{
	stepSurvey, profiles.StepDriverValidate, profiles.StepQuiesce, profiles.StepOverwrite, profiles.StepVerify,
	profiles.StepReset, profiles.StepProbe, profiles.StepRestore, profiles.StepRuntimeCheck, profiles.StepFabricVerify,
	profiles.StepContainerRuntime,
	profiles.StepHealth,
}

const stepSurvey = "survey"

func (s *Scrub) step(ctx context.Context, name string) error {
	switch name {
	case stepSurvey:
		return s.survey(ctx)
	case profiles.StepDriverValidate:
		return s.validate(ctx)
	case profiles.StepQuiesce:
		return s.quiesce(ctx)
	case profiles.StepOverwrite:
		return s.overwrite(ctx)
	case profiles.StepVerify:
		return s.verify(ctx)
	case profiles.StepReset:
		return s.reset(ctx)
	case profiles.StepProbe:
		return s.probe(ctx)
	case profiles.StepRestore:
		return s.restore(ctx)
	case profiles.StepRuntimeCheck:
		return s.runVendorTool(ctx, name, "runtime_check_failed", "the vendor's own check of the GPUs failed")
	case profiles.StepFabricVerify:
		return s.runVendorTool(ctx, name, "fabric_check_failed", "the state of the fabric is wrong")
	case profiles.StepContainerRuntime:
		return s.containers(ctx)
	}
	return s.health(ctx)
}

// Do carries the plan out. An error concerns the whole node, such as profile_missing or a cancel.
// Faults of single GPUs are in the result; the result is set even with an error.
func (s *Scrub) Do(ctx context.Context) (result *taskcatalog.GPUScrubResult, report taskcatalog.Report, err error) {
	if s.Params.Policy != nil {
		s.policy = *s.Params.Policy
	}
	err = s.Stopped.ForgetUnnamed()
	for _, name := range plan {
		if err != nil {
			break
		}
		s.reportProgress(name, 0, "")
		if err = s.step(ctx, name); err == nil {
			err = context.Cause(ctx)
		}
	}
	s.putBack(ctx)
	for _, i := range s.stopped {
		if !i.PutBack {
			s.note(taskcatalog.VerdictInconclusive, "not_put_back", cmp.Or(i.Unit, "node"),
				"stopped or switched off for the scrub, and not restored: %s", i.Message)
		}
	}
	result, report = s.sum(err)
	return result, report, err
}

func (s *Scrub) reportProgress(step string, percent int, message string) {
	if s.Progress != nil {
		s.Progress(step, slices.Index(plan, step)+1, len(plan), percent, message)
	}
}

// live returns the units that are still worth work.
func (s *Scrub) live() []*unit {
	return slices.DeleteFunc(slices.Clone(s.units), func(u *unit) bool { return u.done })
}

// answer is the helper's answer about a GPU.
type answer[T any] struct {
	value T
	err   error
}

func answerOf[T any](value T, err error) answer[T] { return answer[T]{value, err} }

// queryEach asks the GPUs side by side, each in a process of its own.
func queryEach[T any](of map[gpu.Device][]*unit, ask func(gpu.Device) T) map[gpu.Device]T {
	devices := slices.Collect(maps.Keys(of))
	all := map[gpu.Device]T{}
	for i, value := range gpu.InParallel(devices, ask) {
		all[devices[i]] = value
	}
	return all
}

// gpus groups units by GPU: reset, settings and health belong to the GPU, not to its instances.
func gpus(units []*unit) map[gpu.Device][]*unit {
	all := map[gpu.Device][]*unit{}
	for _, u := range units {
		all[u.whole()] = append(all[u.whole()], u)
	}
	return all
}
