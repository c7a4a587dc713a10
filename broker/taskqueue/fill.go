package taskqueue

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// An agent refuses a task with an unknown param, and reports only its known types. A param that
// was added to a type later is sent only to agents that report a type of the same or a later
// release.
const (
	sinceExpectedAgent = "node.rotate_identity@1"
	sinceSlots         = "node.self_update@1"
)

// fill completes params with the broker's records: the node's baseline, its site's policy, the
// files of the agent's package, the trust bundle in force. The node stores none of them, because
// a tenant with root could change them there.
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
	// The node applies the same schema: an early refusal is better.
	if _, err := typ.DecodeParams(full); err != nil {
		return nil, asInvalid(err)
	}
	return full, nil
}

// baseline is the node's baseline; nil: not taken yet.
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

// maxScratch is the schema's limit of patterns in a cleanup.
const maxScratch = 64

// scratch adds the patterns of the site's policy to the requested patterns: a cleanup must empty
// everything that a validation judges by the policy.
func (q *Queue) scratch(ctx context.Context, site string, asked []string) ([]string, error) {
	policy, err := q.policy(ctx, site)
	if err != nil || policy == nil {
		return asked, err
	}
	all := slices.Concat(asked, policy.Scratch)
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) > maxScratch {
		return nil, broker.Errorf(broker.Invalid, string(taskcatalog.CodeBadParams),
			"cannot enqueue task: the task and the site's policy have %d scratch patterns, and a cleanup accepts %d (name fewer)", len(all),
			maxScratch)
	}
	return all, nil
}

// gpus adds the GPUs of the node's baseline, and the site's requirements for a scrub.
func (q *Queue) gpus(ctx context.Context, n broker.Node, p *taskcatalog.GPUScrubParams) error {
	base, err := q.baseline(ctx, n)
	if err != nil {
		return err
	}
	if base == nil {
		return broker.Errorf(broker.Refused, "baseline_missing",
			"cannot scrub the GPUs of node %s: the node has no baseline that lists the expected GPUs (hostler node baseline retake)", n.ID)
	}
	p.Expected = base.GPUs
	policy, err := q.policy(ctx, n.Site)
	if policy != nil {
		p.Policy = policy.GPU
	}
	return err
}

// profiles adds the set of the given version. A rollback carries none.
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
