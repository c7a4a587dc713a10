package turnover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Baselines are the expected states of nodes.
type Baselines interface {
	// Parts are the machine's expected parts and its last report.
	Parts(ctx context.Context, nodeID string) (Parts, error)
	// Reinstalled makes a task's baseline the node's baseline, if it differs from the old
	// baseline only in values that each installation makes for itself. Otherwise nothing changes,
	// and unlike lists the other differences. A system from another image is compared with the last
	// baseline of that image, and its hardware with the old baseline. chosen says that the run was asked
	// for its image: the image is another one if that of the old baseline is not known.
	Reinstalled(ctx context.Context, nodeID, runID, taskID string, chosen bool) (unlike []string, err error)
}

// noGPUs reports that the machine has no GPU, by the baseline, by the record and by its report. A
// machine that never reported facts does not count as without GPUs.
func (c *Chains) noGPUs(ctx context.Context, r *run) (bool, error) {
	p, err := c.parts(ctx, r)
	return err == nil && !p.NoFacts && !p.hasGPUs(), err
}

func (p Parts) hasGPUs() bool {
	expected := slices.ContainsFunc(p.Devices, func(d broker.Device) bool {
		return d.Kind == broker.DeviceGPU &&
			d.State != broker.DeviceRemoved
	})
	return len(p.GPUs) > 0 || len(p.Facts.GPUs) > 0 || expected
}

// parts are the parts of the machine. If the node never reported facts, a run whose node stays
// stops here: unknown parts cannot be found clean.
func (c *Chains) parts(ctx context.Context, r *run) (Parts, error) {
	p, err := c.Nodes.Parts(ctx, r.State.NodeID)
	switch {
	case err != nil:
		return p, taskstage.Records(err)
	case p.NoFacts && r.State.Mode != FullDecommission:
		return p, factsUnknown(r)
	}
	return p, nil
}

func factsUnknown(r *run) *chain.Failure {
	return chain.Fail(inputError, "node %s has never reported its hardware, so it is not known what must be cleaned",
		r.State.NodeID).With("facts_unknown", nil).
		Next("restart the agent of node %s, which then reports its hardware; then retry", r.State.NodeID)
}

// scrubClasses are the codes of an unclean GPU that are failure classes, too.
var scrubClasses = []taskcatalog.Code{
	taskcatalog.CodeGPUHardwareFault, taskcatalog.CodeGPUHolderPresent, taskcatalog.CodeDriverScrubDisabled,
	taskcatalog.CodeGPUResetRefused, taskcatalog.CodeGPUResetUnproven,
}

// scrub overwrites the GPUs. An unclean GPU keeps the node from use.
func (c *Chains) scrub(ctx context.Context, r *run) error {
	k, err := c.request(ctx, r, incomplete, taskstage.Task{Type: "node.gpu_scrub", Params: taskcatalog.GPUScrubParams{}}, "")
	if err != nil {
		return err
	}
	var result taskcatalog.GPUScrubResult
	if err := unmarshal(k, &result); err != nil {
		return err
	}
	clean, class, wrong := 0, incomplete, ""
	for _, g := range result.GPUs {
		if g.Verdict == taskcatalog.VerdictClean {
			clean++
			continue
		}
		if wrong == "" {
			wrong = "GPU " + taskcatalog.Clean(g.UUID, 64) + " is " + string(g.Verdict) + ": " +
				taskcatalog.Clean(string(g.Code)+" "+g.Message, 200)
		}
		if slices.Contains(scrubClasses, g.Code) {
			class = chain.Class(g.Code)
		}
	}
	if k.Verdict == taskcatalog.VerdictClean {
		r.Note(map[string]any{"task_id": k.ID, "gpus": clean}, "%d GPUs are clean", clean)
		return nil
	}
	if wrong == "" {
		wrong = "the broker's verdict is " + string(k.Verdict)
	}
	return c.unclean(ctx, r, class, k, "%d of %d GPUs are clean; %s", clean, len(result.GPUs), wrong)
}

// scrubLeaving is scrub for a node that is removed. It fails with facts_unknown if the node never
// reported facts and has no GPU in its baseline or on record.
func (c *Chains) scrubLeaving(ctx context.Context, r *run) error {
	p, err := c.parts(ctx, r)
	switch {
	case err != nil:
		return err
	case p.NoFacts && !p.hasGPUs():
		return factsUnknown(r)
	}
	return c.scrub(ctx, r)
}

// validate inspects the whole machine.
func (c *Chains) validate(ctx context.Context, r *run) error {
	k, err := c.request(ctx, r, residue, taskstage.Task{Type: "node.validate_clean", Params: taskcatalog.ValidateCleanParams{}}, "")
	if err != nil {
		return err
	}
	var result taskcatalog.ValidateCleanResult
	if err := unmarshal(k, &result); err != nil {
		return err
	}
	r.State.Findings = result.Findings
	if k.Verdict == taskcatalog.VerdictClean {
		r.Note(map[string]any{"task_id": k.ID, "checks": result.ChecksMade}, "%d checks found nothing", result.ChecksMade)
		return nil
	}
	told, err := c.onlyReported(ctx, r, k)
	if err != nil {
		return err
	}
	if told {
		r.Note(map[string]any{"task_id": k.ID, "checks": result.ChecksMade, "report_only": r.State.Policy.ReportOnly},
			"the node is %s only by checks that do not count: the policy accepts their findings, or they count only in a fresh system",
			k.Verdict)
		return nil
	}
	return c.unclean(ctx, r, residue, k, "the node is %s: %d findings, %d checks not made", k.Verdict, result.Findings,
		result.ChecksNotMade)
}

// validateFresh inspects a system that MAAS has just installed. Such a system has new keys and
// names, unknown to the node's baseline. So a task takes a new baseline first, which replaces the
// old baseline if nothing else differs; any other difference makes the node unclean. Only then is
// the node compared with the new baseline, here and in later turnovers.
func (c *Chains) validateFresh(ctx context.Context, r *run) error {
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	switch {
	case err != nil:
		return taskstage.Records(err)
	case environment(&r.State, n) != certificate.FreshOS:
		return c.validate(ctx, r) // it is unknown who was on the node before
	}
	k, err := c.request(ctx, r, residue, taskstage.Task{
		Type:   "node.validate_clean",
		Params: taskcatalog.ValidateCleanParams{TakeBaseline: true},
	}, forBaseline)
	if err != nil {
		return err
	}
	unlike, err := c.Nodes.Reinstalled(ctx, r.State.NodeID, r.ID, k.ID, r.State.Image != "")
	switch {
	case err != nil:
		return taskstage.Records(err)
	case len(unlike) > 0:
		err := c.unclean(ctx, r, residue, k, "the fresh system differs from the node's first system: %s%s",
			taskcatalog.Clean(unlike[0], 200), andOthers(len(unlike)-1))
		if f, failed := errors.AsType[*chain.Failure](err); failed {
			return f.Next("review the differences (hostler node baseline diff %s); if they come from the image, accept the baseline (hostler node baseline accept %s --reason R), then retry", r.State.NodeID, r.State.NodeID)
		}
		return err
	}
	return c.validate(ctx, r)
}

// forBaseline marks the task that takes a baseline in validateFresh: the task judges nothing.
const forBaseline = "baseline"

func andOthers(n int) string {
	if n < 1 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// onlyReported reports whether a validation fails only in checks that the policy only reports, or
// that do not count in the inspected system. The node's signed report decides, as for the
// certificate.
func (c *Chains) onlyReported(ctx context.Context, r *run, k broker.Task) (bool, error) {
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	if err != nil {
		return false, taskstage.Records(err)
	}
	p, err := c.Nodes.Proof(ctx, k.ID)
	if err != nil {
		return false, taskstage.Records(err)
	}
	if p.Proof == nil {
		return false, nil
	}
	seen := &certificate.Clean{Policy: policyOf(r.State.Policy), Environment: environment(&r.State, n)}
	if err := validated(seen, k.ID, p.Proof); err != nil {
		return false, err
	}
	return seen.Validation.Verdict == k.Verdict && seen.Passes(), nil
}

// unclean keeps a node from use that was inspected and is not clean. The task is not requested
// again under this attempt's key: the next attempt inspects again.
func (c *Chains) unclean(ctx context.Context, r *run, class chain.Class, k broker.Task, format string, args ...any) error {
	f := chain.Fail(class, format+" (hostler task show %s)", append(args, k.ID)...).With(string(class), taskstage.Details(k))
	if r.State.Mode == FullDecommission {
		return f // nobody gets the node, which is on its way out
	}
	if err := c.Nodes.Quarantine(ctx, r.State.NodeID, f.Message); err != nil {
		return taskstage.Records(err)
	}
	return f
}

// unmarshal reads the result of a task. The queue has already checked the result against the
// task's type.
func unmarshal(k broker.Task, result any) error {
	if err := json.Unmarshal(k.Result, result); err != nil {
		return chain.Fail(untrusted, "the result of task %s cannot be read", k.ID).With("bad_result", nil)
	}
	return nil
}
