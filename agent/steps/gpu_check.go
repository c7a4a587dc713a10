package steps

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/hostler/hostler/agent/resolver"
	"github.com/hostler/hostler/taskcatalog"
)

// checkGPU does a step of which the resolver profiles of the node say how: the rule that matches the
// machine names a command profile, or says that there is nothing to do on this hardware.
func checkGPU(ctx context.Context, s *Step) (Proof, error) {
	facts, err := s.Host.Facts(ctx)
	if err != nil {
		return Proof{}, fmt.Errorf("cannot gather the facts that the profiles match on: %w", err)
	}
	if err := lostGPU(s.Plan, facts.Keys); err != nil {
		return Proof{}, err
	}
	r, err := resolver.Resolve(s.Host.Profiles.InForce(), facts.Keys, s.Kind)
	proof := Proof{Profile: r.Profile(), Match: r.Rule}
	switch {
	case err != nil:
		return proof, taskcatalog.Errorf(taskcatalog.CodeStepUnsupported, "%v", err)
	case r.Nothing():
		proof.Nothing, proof.Message = true, "there is nothing to do on this hardware"
		return proof, nil
	case r.Command == nil:
		return proof, taskcatalog.Errorf(taskcatalog.CodeStepUnsupported, "%s is no code for %s in an operation", r.Profile(), s.Kind)
	}
	res, _, err := s.Host.Commands.Step(ctx, r, nil)
	if err != nil {
		return proof, err
	}
	proof.Message = fmt.Sprintf("%s ended with %d", r.Command.Command, res.ExitCode)
	return proof, nil
}

// hardwareFacts are the facts that the bus shows, with or without a driver.
var hardwareFacts = []string{"gpu.vendor", "gpu.fabric"}

// lostGPU returns why the hardware that the plan requires is not there now. The rules of a machine
// without it say that there is nothing to do, which would count as good.
func lostGPU(plan *taskcatalog.OperationPlan, has map[string]string) error {
	for _, fact := range hardwareFacts {
		wanted, asked := plan.Requires[fact]
		if asked && !slices.Contains(wanted, has[fact]) {
			return taskcatalog.Errorf(taskcatalog.CodeCapabilityMissing,
				"%s of this machine is %s, and the operation requires one of %q (look whether all GPUs are on the PCI bus)",
				fact, cmp.Or(has[fact], "unknown"), wanted)
		}
	}
	want := plan.GPUs
	for _, least := range plan.Requires[taskcatalog.GPUCount] {
		n, err := strconv.Atoi(least)
		if err != nil {
			return taskcatalog.Errorf(taskcatalog.CodePlanInvalid, "the operation requires %s GPUs, which is no number", taskcatalog.Clean(least, 32))
		}
		want = max(want, n)
	}
	if n := has[taskcatalog.GPUCount]; want > 0 && !taskcatalog.EnoughGPUs(n, want) {
		return taskcatalog.Errorf(taskcatalog.CodeCapabilityMissing,
			"this machine has %s GPUs, and its SKU or the operation wants %d (look whether all GPUs are on the PCI bus and answer their driver)",
			cmp.Or(n, "an unknown number of"), want)
	}
	return nil
}
