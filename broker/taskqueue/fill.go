package taskqueue

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// An agent refuses a task with a param that it does not know, and tells of none but the
// types that it knows. What came to a type later goes to those alone that report a type
// that came with it, or after it.
const (
	sinceExpectedAgent = "node.rotate_identity@1"
	sinceSlots         = "node.self_update@1"
)

// fill completes params with what the broker keeps: the node's baseline, its
// site's policy, what the agent's package has, the trust bundle in force. The node keeps none of them, as a
// tenant with root could have changed them there.
func (q *Queue) fill(ctx context.Context, n broker.Node, typ taskcatalog.Type, params any, raw json.RawMessage) (json.RawMessage, error) {
	var err error
	switch p := params.(type) {
	case *taskcatalog.StorageCleanupParams:
		if p.Baseline, err = q.baseline(ctx, n); err == nil {
			p.Scratch, err = q.scratch(ctx, n.Site, p.Scratch)
		}
	case *taskcatalog.ValidateCleanParams:
		if p.Policy, err = q.policy(ctx, n.Site); p.Policy != nil {
			p.Policy.GPU = nil // for scrubs alone
		}
		if err == nil && !p.TakeBaseline {
			if p.Baseline, err = q.baseline(ctx, n); err == nil && slices.Contains(n.TaskTypes, sinceExpectedAgent) {
				p.ExpectedAgent, err = q.agentPackages(ctx, n)
			}
		}
	case *taskcatalog.TrustUpdateParams:
		p.Bundle, err = q.bundle(ctx)
	case *taskcatalog.GPUScrubParams:
		err = q.gpus(ctx, n, p)
	case *taskcatalog.ResolverConfigParams:
		err = q.profiles(ctx, p)
	case *taskcatalog.SelfUpdateParams:
		err = q.release(ctx, n, p)
	default:
		return raw, nil
	}
	if err != nil {
		return nil, err
	}
	full, err := taskcatalog.Encode(params)
	if err != nil {
		return nil, err
	}
	// The node judges by the same schema: better refused here.
	if _, err := typ.DecodeParams(full); err != nil {
		return nil, asInvalid(err)
	}
	return full, nil
}

// baseline is the node's, or nil before one was taken.
func (q *Queue) baseline(ctx context.Context, n broker.Node) (*taskcatalog.Baseline, error) {
	if n.BaselineDigest == "" {
		return nil, nil
	}
	raw, err := q.c.DB.Baseline(ctx, n.BaselineDigest)
	if err != nil {
		return nil, err
	}
	b := new(taskcatalog.Baseline)
	return b, taskcatalog.DecodeStrict(raw, b)
}

func (q *Queue) policy(ctx context.Context, site string) (*taskcatalog.CleanPolicy, error) {
	raw, err := q.c.DB.CleanPolicy(ctx, site)
	if err != nil || raw == nil {
		return nil, err
	}
	p := new(taskcatalog.CleanPolicy)
	return p, taskcatalog.DecodeStrict(raw, p)
}

// maxScratch is how many patterns a cleanup takes, as its schema says.
const maxScratch = 64

// scratch adds the patterns of the site's policy to those asked for: what a
// validation judges by the policy a cleanup must have emptied.
func (q *Queue) scratch(ctx context.Context, site string, asked []string) ([]string, error) {
	policy, err := q.policy(ctx, site)
	if err != nil || policy == nil {
		return asked, err
	}
	all := slices.Concat(asked, policy.Scratch)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxScratch {
		return nil, broker.Errorf(broker.Invalid, string(taskcatalog.CodeBadParams), "cannot enqueue task: its scratch patterns and those of the site's policy are %d, a cleanup takes %d (name fewer)", len(all), maxScratch)
	}
	return all, nil
}

// gpus adds the GPUs of the node's baseline, and what its site asks of a scrub.
func (q *Queue) gpus(ctx context.Context, n broker.Node, p *taskcatalog.GPUScrubParams) error {
	base, err := q.baseline(ctx, n)
	if err != nil {
		return err
	}
	if base == nil {
		return broker.Errorf(broker.Refused, "baseline_missing", "cannot scrub the GPUs of node %s: it has no baseline that says which are expected (hostler node baseline retake)", n.ID)
	}
	p.Expected = base.GPUs
	policy, err := q.policy(ctx, n.Site)
	if policy != nil {
		p.Policy = policy.GPU
	}
	return err
}

// profiles adds the set that a version names. A rollback carries none.
func (q *Queue) profiles(ctx context.Context, p *taskcatalog.ResolverConfigParams) error {
	if p.Action == "rollback" {
		return nil
	}
	set, err := q.c.DB.ResolverSet(ctx, p.Version)
	p.Version, p.Digest, p.Profiles = set.Version, set.Digest, set.Profiles
	return err
}

func (q *Queue) bundle(ctx context.Context) (string, error) {
	version, envelope, err := q.c.DB.LatestBundle(ctx)
	if err == nil && version == 0 {
		err = broker.Errorf(broker.Internal, "trust_bundle_missing", "cannot send a trust bundle: there is none yet")
	}
	return string(envelope), err
}
