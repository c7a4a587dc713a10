package steps

import (
	"context"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// Step is a step of a plan on its host. Package plan has checked its arguments against the kind's row
// of taskcatalog.StepKinds and bound them.
type Step struct {
	taskcatalog.PlannedStep
	Plan *taskcatalog.OperationPlan
	Host *host.Host
	Args Args
	// Checkpoint is kept over attempts, restarts of the agent, and later tasks of the operation.
	Checkpoint Checkpoint
	// Progress reports how much of the step is done. It never blocks.
	Progress func(percent int, message string)
	// Mint asks the broker for the credential of this step. Of credential.mint alone; of cluster.verify
	// and cluster.leave, for what the cluster says of the node.
	Mint func(ctx context.Context) ([]byte, error)
}

// Checkpoint is what a step keeps of its own progress. Save returns when it is on the disk.
type Checkpoint interface {
	Load() ([]byte, error) // nil: nothing was saved
	Save(state []byte) error
}

// Args are the bound arguments of a step by name: string, int64, bool, []string, a table of these
// (map[string]any), or *Secret. An optional argument that the plan leaves out is not there.
type Args map[string]any

// Text returns a text; empty: the plan leaves it out.
func (a Args) Text(name string) string { s, _ := a[name].(string); return s }

// Texts returns a list of texts.
func (a Args) Texts(name string) []string { s, _ := a[name].([]string); return s }

// Integer returns a number, and whether the plan has it.
func (a Args) Integer(name string) (int64, bool) { n, ok := a[name].(int64); return n, ok }

// Table returns names with their values.
func (a Args) Table(name string) map[string]any { t, _ := a[name].(map[string]any); return t }

// Secret returns a handle; nil: the plan leaves it out.
func (a Args) Secret(name string) *Secret { s, _ := a[name].(*Secret); return s }

// place is the path of what the step brings below its root.
func (s *Step) place() string { return s.Args.Text("root") + "/" + s.Args.Text("name") }

// Proof is what a step has shown.
type Proof struct {
	Output string // what later steps may bind
	// Digest and Bytes are of the content that was brought, verified or written.
	Digest  string
	Bytes   int64
	Message string  // one line for people
	Secret  *Secret // the output of credential.mint
	// Profile and Match say which command profile did the step, and which rule chose the profile.
	Profile, Match string
	// Nothing: there was nothing to do on this hardware. The step counts as skipped.
	Nothing bool
}

// Kind is the code of one kind of step.
type Kind struct {
	// Check finds a fault of a planned step that the table of kinds does not show, before anything
	// runs. Nil: there is none.
	Check func(s *taskcatalog.PlannedStep) error
	// Look returns the proof and true if the node proves that the step is done. It changes nothing.
	// Nil: nothing on the node proves that.
	Look func(ctx context.Context, s *Step) (Proof, bool, error)
	// Keeps: Look needs the checkpoint also after the step's success, when the operation is tried again.
	Keeps bool
	// Event reports whether a planned step is an event, such as a restart, that Look cannot find later.
	// Nil: none is.
	Event func(s *taskcatalog.PlannedStep) bool
	// Do carries the step out. An error is a *taskcatalog.Error with its own code, or any other error,
	// which gets the code handler_failed. Codes that no second attempt can mend end the step: Final.
	Do func(ctx context.Context, s *Step) (Proof, error)
}

// kinds is the index of the package: one line a kind.
var kinds = map[string]Kind{
	"artifact.pull_blob":          {Look: blobPulled, Do: pullBlob},
	"artifact.pull_oci":           {Look: ociPulled, Do: pullOCI},
	"artifact.verify":             {Look: verified, Do: verify},
	"credential.mint":             {Do: mintCredential},
	"health.check":                {Check: checkHealthTarget, Do: health},
	"host.reboot":                 {Look: rebooted, Event: always, Do: reboot},
	"gpu.driver.validate":         {Do: checkGPU},
	"gpu.runtime.check":           {Do: checkGPU},
	"gpu.fabric.verify":           {Do: checkGPU},
	"gpu.container_runtime.check": {Do: checkGPU},
	"file.render":                 {Check: checkTemplate, Look: renderedFile, Do: renderFile},
	"service.control":             {Look: unitControlled, Event: restarts, Do: controlUnit},
	"cluster.join":                {Check: checkCluster, Look: lookJoined, Keeps: true, Do: join},
	"cluster.leave":               {Check: checkCluster, Do: leave},
	"cluster.verify":              {Do: verifyMember},
	CommandKind:                   {Check: checkCommand, Do: runCommand},
	"network.fabric.verify":       {Do: verifyFabric},
	"package.install":             {Look: lookPackages, Do: installPackages},
	"python.env.create":           {Look: lookPythonEnv, Do: createPythonEnv},
}

// Lookup finds the code of a kind.
func Lookup(name string) (Kind, bool) {
	k, ok := kinds[name]
	return k, ok
}

// Final reports whether a second attempt of a step that ended with this code is of no use.
func Final(code taskcatalog.Code) bool {
	switch code {
	case taskcatalog.CodePlanInvalid, taskcatalog.CodeStepUnsupported, taskcatalog.CodeSourceRefused,
		taskcatalog.CodeDigestMismatch, taskcatalog.CodeArtifactTooBig, taskcatalog.CodePathRefused,
		command.CodeExecutableRefused, command.CodeExecutableInsecure:
		return true
	case CodePackageNotFound, CodePackageConflict, CodePackageUntrusted,
		CodeLockRefused, CodeWheelNotFound, CodePathTaken, CodePathInsecure, CodePythonMissing:
		return true
	}
	return false
}
