package tasks

import (
	"context"
	"fmt"
	"slices"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/host"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// Codes of a set refused here.
const (
	codeProfilesInvalid taskcatalog.Code = "profiles_invalid"
	codeRefusedHere     taskcatalog.Code = "profiles_refused_here"
	codeDigestMismatch  taskcatalog.Code = "digest_mismatch"
)

// resolverConfig puts a set of profiles into force: either a set carried by the task, or a set kept
// before. A refused set changes nothing; the result names the set in force all the same.
//
// A missing program is reported but does not refuse the set, since a step that needs the program
// reports the lack itself: a node without a driver must be able to report that. An existing program
// that others than root can change refuses the set.
func resolverConfig(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	p, h := r.Params.(*taskcatalog.ResolverConfigParams), r.Host
	var report taskcatalog.Report
	set, problems, err := requestedSet(h, p)
	changed := false
	if err == nil {
		problems, err = checkOnMachine(ctx, h, set)
	}
	if err == nil {
		if p.Action == "rollback" {
			changed, err = h.Profiles.Rollback(set.Version)
		} else {
			changed, err = h.Profiles.Apply(set)
		}
	}
	now := h.Profiles.InForce()
	return &taskcatalog.ResolverConfigResult{
		Version: now.Version, Digest: now.Digest(), Changed: changed, Kept: h.Profiles.Kept(), Problems: problems,
	}, report, err
}

// requestedSet returns the set that the task asks for, valid by itself.
func requestedSet(h *host.Host, p *taskcatalog.ResolverConfigParams) (*profiles.Set, []profiles.Problem, error) {
	if p.Action == "rollback" {
		set, err := h.Profiles.Find(p.Version)
		return set, nil, err
	}
	if p.Version == "" || p.Digest == "" || len(p.Profiles) == 0 {
		return nil, nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot use profiles: the task carries none (hostler resolver push)")
	}
	set, problems := profiles.Decode(p.Profiles)
	if problems != nil {
		return nil, problems, taskcatalog.Errorf(codeProfilesInvalid, "cannot use profiles %s: %v", p.Version, problems)
	}
	if got := set.Digest(); got != p.Digest {
		return nil, nil, taskcatalog.Errorf(codeDigestMismatch,
			"cannot use profiles %s: their digest is %s, not %s (push the profiles again)", p.Version, got, p.Digest)
	}
	set.Version = p.Version
	return set, nil, nil
}

// checkOnMachine judges the programs of the rule that wins on this machine.
func checkOnMachine(ctx context.Context, h *host.Host, set *profiles.Set) ([]profiles.Problem, error) {
	facts, err := h.Facts(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot check profiles %s: %w", set.Version, err)
	}
	rule, problems := h.Commands.CheckMachine(set, facts.Keys)
	if i := slices.IndexFunc(problems, command.Insecure); i >= 0 {
		return problems, taskcatalog.Errorf(codeRefusedHere, "cannot use profiles %s: rule %s applies on this node: %s", set.Version, rule,
			problems[i])
	}
	return problems, nil
}

// probeResolver reports after a crash which set is in force.
func probeResolver(_ context.Context, h *host.Host, _ *taskcatalog.Task) string {
	set := h.Profiles.InForce()
	return fmt.Sprintf("profiles %s are in force, %s", set.Version, set.Digest())
}
