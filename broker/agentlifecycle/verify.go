package agentlifecycle

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/taskstage"
	"github.com/hostler/hostler/taskcatalog"
)

// Reports are what nodes report of their agents, and releases that they may have.
type Reports interface {
	// Agent reads the record of a node's agent. Code: node_not_found.
	Agent(ctx context.Context, nodeID string) (broker.Agent, error)
	// CheckRelease refuses a release that no node may get: release_revoked, and release_below_floor
	// unless a rollback was requested.
	CheckRelease(ctx context.Context, version string, allowRollback bool) error
	// AskReport has the node report its facts again, with a renewal.
	AskReport(ctx context.Context, nodeID string) error
	// RenewedAt is when the node last got a certificate.
	RenewedAt(ctx context.Context, nodeID string) (time.Time, error)
}

// anyVersion reports that no certain program was requested.
func (c *Chains) anyVersion(_ context.Context, r *run) (bool, error) {
	return r.State.Target == nil, nil
}

// verifyVersion waits until the node reports the release: version, commit and program.
func (c *Chains) verifyVersion(ctx context.Context, r *run) error {
	is, seen, err := c.runs(ctx, &r.State)
	switch {
	case err != nil:
		return err
	case !is:
		return chain.AgainFor(updateFailed, 5*time.Second, "node %s reports %s instead of %s", r.State.NodeID, seen, r.State.Target.Version)
	}
	if r.State.DeliveredAt.IsZero() {
		r.State.DeliveredAt = r.Now
	}
	r.Note(nil, "node %s reports %s", r.State.NodeID, seen)
	return nil
}

// runs reports whether the node's own report names the release: version, commit and program.
func (c *Chains) runs(ctx context.Context, s *Work) (is bool, seen string, err error) {
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return false, "", taskstage.Records(err)
	}
	a, err := c.Nodes.Agent(ctx, s.NodeID)
	if err != nil {
		return false, "", taskstage.Records(err)
	}
	t := s.Target
	is = n.AgentVersion == t.Version && (t.Commit == "" || a.Commit == t.Commit) && (t.SHA256 == "" || a.SHA256 == t.SHA256)
	seen = taskcatalog.Clean(n.AgentVersion, 64)
	if n.AgentVersion == t.Version && !is {
		seen += " of another build (" + taskcatalog.Clean(a.Commit, 64) + ")"
	}
	return is, seen, nil
}

// verifyHealth has the agent answer a task, in the wanted version.
func (c *Chains) verifyHealth(ctx context.Context, r *run) error {
	k, err := c.succeed(ctx, r, "node.heartbeat_check", taskcatalog.HeartbeatCheckParams{})
	if err != nil {
		return err
	}
	var result taskcatalog.HeartbeatCheckResult
	if err := json.Unmarshal(k.Result, &result); err != nil {
		return chain.Fail(updateFailed, "the result of task %s cannot be read", k.ID).With("bad_result", nil)
	}
	if t := r.State.Target; t != nil && result.AgentVersion != t.Version {
		return chain.Fail(updateFailed, "the agent of node %s answers as version %s instead of %s (task %s)", r.State.NodeID,
			taskcatalog.Clean(result.AgentVersion, 64), t.Version, k.ID).With("version_not_running", nil)
	}
	return nil
}

// verifyRenewal has the node renew its certificate, as part of a requested report. A node that
// has renewed by itself since the delivery need not renew again.
func (c *Chains) verifyRenewal(ctx context.Context, r *run) error {
	s := &r.State
	renewed, err := c.Nodes.RenewedAt(ctx, s.NodeID)
	switch {
	case err != nil:
		return taskstage.Records(err)
	case renewed.After(s.DeliveredAt):
		r.Note(map[string]any{"renewed_at": renewed}, "node %s has renewed its certificate", s.NodeID)
		return nil
	}
	if !s.ReportAsked {
		if err := c.Nodes.AskReport(ctx, s.NodeID); err != nil {
			return taskstage.Records(err)
		}
		s.ReportAsked = true
	}
	return chain.AgainFor(updateFailed, 5*time.Second, "node %s was asked to renew its certificate, and has not done so", s.NodeID)
}

// verifySchedulable waits until the node is as fit for a tenant as before: no reason against a
// handout is new since the run began. It then records the end of the delivery; an update has
// recorded it already.
func (c *Chains) verifySchedulable(ctx context.Context, r *run) error {
	s := &r.State
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	unfit, err := c.Nodes.Unfit(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	for _, u := range unfit {
		if !slices.Contains(s.Unfit, u.Code) {
			return chain.AgainFor(updateFailed, 5*time.Second, "node %s may not be handed out: %s (%s)", n.ID, u.Message, u.Next)
		}
	}
	if s.List != Update {
		if err := c.Nodes.RecordDelivery(ctx, s.delivery(r.ID, string(taskcatalog.UpdateConfirmed), "",
			int64(r.Now.Sub(s.BegunAt).Seconds()))); err != nil {
			return taskstage.Records(err)
		}
	}
	r.Note(map[string]any{"status": n.Status}, "node %s is %s, and as fit for a tenant as before", n.ID, n.Status)
	return nil
}

// waitForInstall waits until a person's work at the machine shows a result: the node has enrolled
// or renewed since the run began, and reports the release if the run has one.
func (c *Chains) waitForInstall(ctx context.Context, r *run) error {
	s := &r.State
	if s.Target != nil { // the release may have been revoked during the wait
		if err := c.Nodes.CheckRelease(ctx, s.Target.Version, s.AllowRollback); err != nil {
			return taskstage.Records(err)
		}
	}
	n, err := c.Nodes.Node(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	renewed, err := c.Nodes.RenewedAt(ctx, s.NodeID)
	if err != nil {
		return taskstage.Records(err)
	}
	if !renewed.After(s.BegunAt) || n.LastAgentContactAt.Before(renewed) {
		return chain.Again(10*time.Second, "%s", s.Next())
	}
	if s.Target != nil {
		is, seen, err := c.runs(ctx, s)
		switch {
		case err != nil:
			return err
		case !is:
			return chain.Again(10*time.Second, "node %s reports %s; %s", s.NodeID, seen, s.Next())
		}
	}
	s.DeliveredAt, s.Epoch = s.BegunAt, n.Epoch
	r.Note(map[string]any{"version": n.AgentVersion, "epoch": n.Epoch}, "the agent of node %s has made contact", n.ID)
	return nil
}

// Next tells a person what to do at the machine of an install.
func (s *Work) Next() string {
	if s.List != Install {
		return ""
	}
	next := ""
	if s.Because != "" {
		next = s.Because + ": "
	}
	switch {
	case s.Scenario == broker.BootstrapInstall, s.Scenario == broker.CertificateRepair, s.Epoch == 0:
		return next + "issue a token (hostler node token issue " + s.NodeID + "), and run the printed command on the machine"
	case s.Scenario == broker.ConfigRepair || s.Target == nil:
		return next + "restart the machine's agent (systemctl restart hostler-agent), or start this work again with --mode reimage"
	case s.Package != nil:
		return next + "fetch " + s.Package.URL + " on the machine, check its SHA-256 (" + s.Package.SHA256 +
			"), and install it (apt install ./" + s.Package.Filename + ")"
	}
	return next + "install version " + s.Target.Version +
		" of the agent on the machine (its package is not published here: hostler agent-release publish FILE.deb)"
}
