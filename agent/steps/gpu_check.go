package steps

import (
	"context"
	"fmt"

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
