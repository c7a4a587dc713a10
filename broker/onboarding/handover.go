package onboarding

import (
	"context"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/taskcatalog"
)

// Handovers are deployed nodes on their way to service.
type Handovers interface {
	// Activate activates an enrolled node if all conditions of an active node are met; otherwise
	// why says what the node lacks. A node that its turnover lets in later (Onboarding.Keeps) stays
	// unchanged; active is then true if the node meets the conditions. Code:
	// CodeHardwareMismatch.
	Activate(ctx context.Context, nodeID string) (active bool, why string, err error)
	// ExtendToken prolongs the open token of a node that has not enrolled: a deployed machine
	// cannot learn another token. Codes: node_deleted, token_none, token_extended_twice.
	ExtendToken(ctx context.Context, nodeID string, until time.Time, reason string) error
	// Reseed has an enrolled node's agent run node.hw_sync_reseed with the machine's own token,
	// once for each key. False: the task has not ended yet.
	Reseed(ctx context.Context, key, nodeID string, token taskcatalog.MAASMachineToken, interval time.Duration) (done bool, err error)
}

var zero time.Time

// noSyncWanted reports whether the profile requires no hardware sync.
func (c *Chains) noSyncWanted(_ context.Context, r *run) (bool, error) {
	return !r.State.Policy.RequireHWSync, nil
}

// noTokenWanted reports whether the profile requires no hardware sync and the run need not compare
// the machine's token with the former one.
func (c *Chains) noTokenWanted(_ context.Context, r *run) (bool, error) {
	rc := r.State.Reclaim
	return !r.State.Policy.RequireHWSync && (rc == nil || rc.Token == ""), nil
}

// stillDeployed looks at this run's deployed machine, and refuses a machine that is deployed no
// longer.
func (c *Chains) stillDeployed(ctx context.Context, r *run) (*place, error) {
	at, err := c.findInSharedList(ctx, r)
	if err != nil {
		return nil, err
	}
	if at.deployed() != nil {
		if err := at.look(ctx); err != nil {
			return nil, err
		}
	}
	return at, at.deployed()
}

func (at *place) deployed() error {
	if at.marked() && at.Status == maas.Deployed {
		return nil
	}
	return at.refuseForeign("the machine was deployed for this run: whoever changed its mark can have it wiped")
}

// ensureSync ensures that the machine has the files and the token of its hardware sync. MAAS
// delivers them with the deployment, and makes the machine's token when it renders the deployment.
func (c *Chains) ensureSync(ctx context.Context, r *run) error {
	at, err := c.stillDeployed(ctx, r)
	if err != nil {
		return err
	}
	if !at.EnableHWSync && r.State.Policy.RequireHWSync {
		return chain.Fail(syncFailure, "machine %s was deployed without hardware sync, and only another deployment enables it",
			at.displayName()).With("failed_hw_sync_seed", nil)
	}
	token, has, err := at.region.Token(ctx, at.Machine)
	switch {
	case err != nil:
		return at.unseen(ctx, err)
	case !has && !r.State.Policy.RequireHWSync:
		return nil
	case !has:
		return chain.Again(patience(r, lookAgain), "MAAS has not created the token of machine %s yet", at.displayName())
	}
	if err := at.rotated(token); err != nil {
		return err
	}
	switch {
	case !r.State.Policy.RequireHWSync:
		return nil
	case at.synced() && at.syncFresh():
		return nil
	}
	if early, err := at.reportNotDue(ctx); err != nil || early {
		return err
	}
	if !token.Told {
		r.State.warn("MAAS does not report which rack controller serves machine " + at.displayName() +
			": its hardware sync uses the region's own address")
	}
	n, err := c.Nodes.Node(ctx, r.State.NodeID)
	if err != nil {
		return storeFault(err)
	}
	switch {
	case n.Epoch <= r.State.Epoch:
		return c.seedBySSH(ctx, at, token)
	case !r.State.enrolled(n): // a node out of use gets no task and no SSH login
		return r.State.outOfUse(n)
	}
	r.State.SSH.Trouble = ""
	done, err := c.Nodes.Reseed(ctx, r.Key(), n.ID, token.MAASMachineToken, at.interval())
	switch {
	case err != nil:
		return reseedFailed(err)
	case !done:
		return chain.Again(patience(r, lookAgain), "the agent of node %s seeds hardware sync again", n.ID)
	}
	return nil
}

func reseedFailed(err error) error {
	if broker.AsError(err).Kind == broker.Unavailable {
		return storeFault(err)
	}
	return chain.Fail(syncFailure, "cannot seed hardware sync again: %w", err).With("failed_hw_sync_seed", nil)
}

// enrolled reports whether the agent that this run deployed has enrolled.
func (s *Onboarding) enrolled(n broker.Node) bool {
	return n.Epoch > s.Epoch && (s.inKeptStatus(n) || n.Status == broker.Enrolling || n.Status == broker.Active ||
		n.Status == broker.Offline)
}

// inKeptStatus reports whether the node is in the status that it keeps until its turnover lets it
// in.
func (s *Onboarding) inKeptStatus(n broker.Node) bool { return s.Keeps != "" && n.Status == s.Keeps }

// outOfUse is the failure of a run whose node was put out of use.
func (s *Onboarding) outOfUse(n broker.Node) error {
	return chain.Fail(enrollmentFailure,
		"node %s is %s: %s (no run activates it: hostler node activate %s; if the broker's own checks refuse the node, restart-clean deploys it again)", n.ID, n.Status, n.StatusReason, n.ID).With("failed_enrollment", nil)
}

// synced reports whether the host itself has reported its hardware (see baseline).
func (at *place) synced() bool { return at.LastSync.After(at.state.SyncBaseline) }

// syncFresh reports whether the host's latest hardware report is recent. MAAS 3.4 and 3.5 write
// times without a time zone, so the times cannot be compared with our clock. For these versions the
// caller's check that last_sync has moved must do.
func (at *place) syncFresh() bool {
	v := at.state.MAASVersion
	if strings.HasPrefix(v, "3.4.") || strings.HasPrefix(v, "3.5.") {
		return at.EnableHWSync && at.SyncInterval > 0
	}
	return at.SyncHealthy(at.run.Now)
}

// reportNotDue reports whether a missing hardware report is still no cause for action: less than
// one and a half intervals have passed since the deployment, without the time of freezes and
// outages.
func (at *place) reportNotDue(ctx context.Context) (bool, error) {
	since, err := at.run.Since(ctx, at.state.DeployedAt)
	return since < at.interval()*3/2, err
}

func (at *place) interval() time.Duration {
	if at.SyncInterval > 0 {
		return seconds(at.SyncInterval)
	}
	d, _ := broker.SyncInterval(at.state.Policy.HardwareSyncInterval)
	return d
}

// waitForSync waits until the host has reported its hardware recently. Where the host does not, its
// agent is asked once an attempt to seed hardware sync anew; without an agent, hardware sync is
// seeded over SSH.
func (c *Chains) waitForSync(ctx context.Context, r *run) error {
	at, err := c.stillDeployed(ctx, r)
	if err != nil {
		return err
	}
	if at.synced() && at.syncFresh() {
		r.Note(map[string]time.Time{"last_sync": at.LastSync.Time, "next_sync": at.NextSync.Time}, "machine %s reports its hardware",
			at.displayName())
		return nil
	}
	if early, err := at.reportNotDue(ctx); err != nil {
		return err
	} else if early {
		return chain.Again(patience(r, settle), "machine %s has not reported its hardware yet", at.displayName())
	}
	if err := c.ensureSync(ctx, r); err != nil {
		return err
	}
	return chain.Again(settle, "machine %s does not report its hardware (last at %s)", at.displayName(), at.LastSync.Format(time.RFC3339))
}

// keepFromUse undoes a finished deployment as far as a run may: the machine is left alone, and the
// node is quarantined. A run that starts over needs the machine, and is refused while somebody may
// be using the node.
func (c *Chains) keepFromUse(ctx context.Context, r *run) error {
	switch {
	case r.State.NodeID == "":
		return nil
	case r.Restarting:
		return c.unused(ctx, r.State.NodeID, r.ID)
	}
	return storeFault(c.Nodes.Quarantine(ctx, r.State.NodeID, "the run was cancelled after the machine was deployed"))
}

// waitForAgent waits for the agent and activates the node. A token that the machine has not used by
// the end of an attempt is extended for the next attempt.
func (c *Chains) waitForAgent(ctx context.Context, r *run) error {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return storeFault(err)
	}
	waits := "its agent has not made contact"
	switch {
	case s.enrolled(n):
		at, err := c.look(ctx, r) // the machine may have been taken away meanwhile
		if err != nil {
			return err
		}
		if err := at.deployed(); err != nil {
			return err
		}
		if waits, err = s.firstBoot(n); err != nil {
			return err
		}
		if waits != "" {
			break
		}
		active, lacks, err := c.Nodes.Activate(ctx, n.ID)
		switch {
		case err != nil:
			return storeFault(err)
		case active:
			is := string(broker.Active)
			if s.inKeptStatus(n) {
				is = string(n.Status) + ", and its agent has made contact"
			}
			r.Note(map[string]string{"node_id": n.ID}, "node %s is %s", n.ID, is)
			return nil
		}
		waits = lacks
	case !s.inKeptStatus(n) && n.Status != broker.BootstrapIssued && n.Status != broker.Enrolling:
		return s.outOfUse(n)
	}
	if s.EnrollAsked != r.Attempt {
		if r.Attempt > 1 && !s.enrolled(n) {
			if err := c.extend(ctx, r); err != nil {
				return err
			}
		}
		s.EnrollAsked, s.EnrollSince = r.Attempt, r.Now
	}
	waited, err := r.Since(ctx, s.EnrollSince)
	switch {
	case err != nil:
		return err
	case waited >= enrollmentTime(*s):
		return chain.Fail(enrollmentFailure, "node %s has not become active within %v: %s", n.ID, enrollmentTime(*s),
			waits).With("failed_enrollment", nil)
	}
	return chain.Again(patience(r, lookAgain), "node %s: %s", n.ID, waits)
}

// extend prolongs the token of the deployed machine. A token that cannot be extended becomes a
// warning: a late enrolment may have used the token already.
func (c *Chains) extend(ctx context.Context, r *run) error {
	until := r.Now.Add(seconds(r.State.Policy.EnrollmentTokenTTLSeconds))
	err := c.Nodes.ExtendToken(ctx, r.State.NodeID, until, "onboarding waits for the machine again")
	switch {
	case err == nil:
		return nil
	case broker.AsError(err).Kind == broker.Refused:
		r.State.warn(broker.AsError(err).Message)
		return nil
	}
	return storeFault(err)
}
