package turnover

import (
	"context"
	"errors"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/taskstage"
)

// Machines are nodes whose machine is given back to MAAS.
type Machines interface {
	// CutOff denies the node's certificates, voids its token and closes its tasks: its machine is
	// about to be given back to MAAS.
	CutOff(ctx context.Context, nodeID, runID, reason string) error
	// Wiped notes that MAAS has the machine back: no user is on it any more.
	Wiped(ctx context.Context, nodeID, runID string) error
	// PreviousSystem is the last contact, with its address, from the system on the machine before
	// the run gave it back; zero: never.
	PreviousSystem(ctx context.Context, nodeID, runID string) (at time.Time, remote string, err error)
}

// Reimage gives a node a fresh system on the same machine. The node keeps its id, and stays
// retired until its certificate lets it in. The former system is cleaned as far as its agent
// answers; the inspection that counts runs in the fresh system, where the tenant never was.
func (c *Chains) Reimage() chain.Chain[Turnover] {
	stages := []stage{
		{
			Name: "disable_node", Do: c.disable, Undo: c.keepFromUse, Retry: retries("disable_node"), Limit: within(records),
			About: aboutDisable,
		},
		{
			Name: "drain_node", Do: c.bestEffort(c.drain, c.takeOutOfService), Retry: retries("drain_node"), Waivable: true,
			About: aboutDrain,
		},
		{
			Name: "cleanup_storage", Done: c.nothingToClean, Do: c.bestEffort(c.cleanStorage, nil), Retry: retries("cleanup_storage"),
			Waivable: true, About: aboutCleanup,
		},
		c.onMachine(c.MAAS.LoadSite()),
		c.release(),
	}
	for _, s := range c.MAAS.Redeployment() {
		stages = append(stages, c.refuseFormerSystem(c.cutOffFirst(c.onMachine(s))))
	}
	for _, s := range []stage{
		{
			Name: "scrub_gpu", Done: c.noGPUs, Do: c.scrub, Retry: retries("scrub_gpu"), Limit: taskLimit("node.gpu_scrub"),
			About: aboutScrub,
		},
		{
			Name: "validate_clean_node", Do: c.validateFresh, Retry: retries("validate_clean_node"),
			Limit: taskLimit("node.validate_clean"),
			About: aboutValidate,
		},
		{
			Name: "issue_clean_certificate", Do: c.refuseStale(c.certify), Retry: retries("issue_clean_certificate"),
			Limit: within(records),
			About: aboutCertify,
		},
		{Name: "enable_node", Do: c.enable, Retry: retries("enable_node"), Limit: within(records), About: aboutEnable},
	} {
		stages = append(stages, c.refuseConflict(c.refuseFormerSystem(s)))
	}
	return chain.Chain[Turnover]{Kind: Reimage.Kind(), Form: form, Probe: c.probe, Failing: c.diagnose, Stages: stages}
}

// machineOf is the part of a turnover that package onboarding works on.
func machineOf(s *Turnover) *onboarding.Onboarding { return &s.Machine }

// onMachine wraps a stage of package onboarding as a stage of a turnover. For a node without a
// machine in MAAS, the stage is skipped.
func (c *Chains) onMachine(s chain.Stage[onboarding.Onboarding]) stage {
	out := chain.Within(s, machineOf)
	done := out.Done
	out.Done = func(ctx context.Context, r *run) (bool, error) {
		switch {
		case r.State.Machine.SiteID == "":
			r.Note(nil, "MAAS has no machine of it")
			return true, nil
		case done == nil:
			return false, nil
		}
		return done(ctx, r)
	}
	return out
}

// probe asks the site of a node's machine; a node without a machine in MAAS waits for no site.
func (c *Chains) probe(ctx context.Context, r *run) error {
	if r.State.Machine.SiteID == "" {
		return nil
	}
	return chain.Part(c.MAAS.Probe, machineOf)(ctx, r)
}

// bestEffort runs a stage on the node's former system, which may be broken or under the tenant's
// control. Work that fails is recorded as not made, and the run goes on, because MAAS ends that
// system in any case. An agent that was silent once gets no further task. An agent that has
// accepted a task counts as working while the task may run, and is not cut off during an erase.
func (c *Chains) bestEffort(do, instead func(context.Context, *run) error) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		s := &r.State
		why := "its agent did not answer earlier"
		if !s.Silent {
			err := do(ctx, r)
			if err == nil {
				return nil
			}
			waited, unknown := r.Since(ctx, r.EnteredAt)
			f, failed := errors.AsType[*chain.Failure](err)
			switch {
			case unknown != nil:
				return unknown
			case failed:
				why, s.Silent = f.Message, f.Class == silent
			case !taskstage.Working(err) && waited >= time.Duration(s.Policy.DrainTimeoutSeconds)*time.Second:
				why, s.Silent = "not within "+waited.String()+": "+err.Error(), true
			default:
				return err
			}
		}
		if instead != nil {
			if err := instead(ctx, r); err != nil {
				return err
			}
		}
		s.warn("%s was not made: %s", r.Stage, why)
		r.AlreadyDone(nil, "not made: %s", why)
		return nil
	}
}

// takeOutOfService takes a node out of service whose agent did not drain it.
func (c *Chains) takeOutOfService(ctx context.Context, r *run) error {
	return c.retireDraining(ctx, r, "the node was not drained: its machine is released")
}

// retireDraining retires a node in status draining. A node that a person keeps out of use stays
// unchanged.
func (c *Chains) retireDraining(ctx context.Context, r *run, reason string) error {
	return c.retireFrom(ctx, r, broker.Draining, reason)
}

// retireFrom retires a node in the given status. A node in another status, also by the time of
// the transaction, stays unchanged.
func (c *Chains) retireFrom(ctx context.Context, r *run, from broker.NodeStatus, reason string) error {
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	if err != nil || n.Status != from {
		return taskstage.Records(err)
	}
	refused := c.Nodes.Retire(ctx, n.ID, r.ID, reason)
	if refused == nil {
		return nil
	}
	if n, err = c.Nodes.Node(ctx, n.ID); err == nil && n.Status != from {
		return nil
	}
	return taskstage.Records(refused)
}

// release gives the machine back to MAAS. Before the request, the node's certificates are denied
// and its open tasks are closed. When MAAS has the machine, no user is on it any more. A machine
// that this run has already deployed is not given back again, and its system is not cut off.
func (c *Chains) release() stage {
	out := c.onMachine(c.MAAS.ReleaseMachine())
	released := chain.Within(c.MAAS.ReleaseMachine(), machineOf).Done
	out.Done = func(_ context.Context, r *run) (bool, error) { return r.State.Machine.SiteID == "", nil }
	give := out.Do
	out.Do = func(ctx context.Context, r *run) error {
		s := &r.State
		is, err := released(ctx, r)
		switch {
		case err != nil:
			return err
		case is && s.Machine.Seen.Owner != "":
			r.AlreadyDone(nil, "machine %s was released, and is deployed for this run", s.Machine.SystemID)
			return nil
		}
		if err := c.Nodes.CutOff(ctx, s.NodeID, r.ID, s.Reason); err != nil {
			return taskstage.Records(err)
		}
		n, err := c.Nodes.Node(ctx, s.NodeID)
		if err != nil {
			return taskstage.Records(err)
		}
		s.Machine.Epoch = n.Epoch // an earlier enrolment, for this run too, is not the new agent's
		if is {
			r.AlreadyDone(nil, "machine %s was released already", s.Machine.SystemID)
			if did := s.Machine.Reclaim.Did; (did == "" || did == maas.EraseNone) && s.Erase != EraseNone {
				s.warn("MAAS took the machine back before this run, so this run erased nothing (the next reimage does)")
			}
		} else if err := give(ctx, r); err != nil {
			return err
		}
		if err := c.Nodes.Wiped(ctx, s.NodeID, r.ID); err != nil {
			return taskstage.Records(err)
		}
		s.WipedAt = r.Now
		return nil
	}
	return out
}

// cutOffFirst makes the undo of a deployment cut off the node, as release does: the agent of the
// undone deployment may have come, and becomes a former system when MAAS has the machine again.
// CutOff also voids the token of the deployment.
func (c *Chains) cutOffFirst(s stage) stage {
	if s.Name != "deploy_via_maas" {
		return s
	}
	undo := s.Undo
	s.Undo = func(ctx context.Context, r *run) error {
		if err := c.Nodes.CutOff(ctx, r.State.NodeID, r.ID, "its deployment is undone"); err != nil {
			return taskstage.Records(err)
		}
		if err := undo(ctx, r); err != nil {
			return err
		}
		return taskstage.Records(c.Nodes.Wiped(ctx, r.State.NodeID, r.ID))
	}
	return s
}

// refuseFormerSystem stops a stage for a person if the former system is heard after MAAS had its
// machine back. Contacts that a person has already seen do not count.
func (c *Chains) refuseFormerSystem(s stage) stage {
	do := s.Do
	s.Do = func(ctx context.Context, r *run) error {
		at, from, err := c.Nodes.PreviousSystem(ctx, r.State.NodeID, r.ID)
		switch {
		case err != nil:
			return taskstage.Records(err)
		case at.After(r.State.HeardAt):
			r.State.HeardAt = at
			return chain.Fail(ambiguity, "node %s: the previous OS is still running: its old certificate was used from %s at %s",
				r.State.NodeID, from, at.Format(time.RFC3339)).
				With("previous_os_alive", map[string]any{"remote": from, "at": at}).
				Next("find out what the machine boots from, and which other machine has its disk; then resume, or restart-clean. If only a copy of the node's former key was used: hostler drift resolve %s", r.State.Hostname)
		}
		return do(ctx, r)
	}
	return s
}
