package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/identity"
	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// codeLeaseLost is the broker's answer to a request for a new key or a secret if the task is not
// leased to this node at the moment. The broker issued nothing.
const codeLeaseLost taskcatalog.Code = "lease_lost"

// longestPause is the longest pause between two tries of a task whose time is short.
const longestPause = 15 * time.Second

// rotateIdentity executes the rotation task: it retries until the node has its new key or the
// broker has refused for good. If the task's time ends first, the main loop goes on from the state
// on disk.
func (a *Agent) rotateIdentity(ctx context.Context, taskID string) (*taskcatalog.RotateIdentityResult, error) {
	pause := uplink.NewPause()
	for {
		err := a.tryRotation(ctx, taskID)
		if err == nil {
			break
		}
		if errors.Is(err, identity.ErrRotationOver) || ctx.Err() != nil {
			return nil, rotationError(err)
		}
		wait := pause.After(err)
		if refusal, ok := uplink.RefusalOf(err); !ok || refusal.RetryAfter == 0 {
			wait = min(wait, longestPause)
		}
		a.Log.Warn("cannot change the node's key; the agent tries again", zap.String("task", taskID),
			zap.Duration("again_in", wait.Round(time.Millisecond)), zap.Error(err))
		if sleep(ctx, wait) != nil {
			return nil, rotationError(err)
		}
	}
	result, ok := a.rotated(taskID)
	if !ok {
		return nil, taskcatalog.Errorf(identity.CodeStateInvalid,
			"the key was changed, and the state in %s does not name the new certificate", a.StateDir)
	}
	return result, nil
}

// rotationError keeps the code of the broker's refusal.
func rotationError(err error) error {
	if r, ok := uplink.RefusalOf(err); ok && r.Code != "" {
		return taskcatalog.Errorf(r.Code, "%s", r.Error())
	}
	return err
}

// rotated returns the result of a rotation, if the present key came from this rotation.
func (a *Agent) rotated(taskID string) (*taskcatalog.RotateIdentityResult, bool) {
	cert, ok := a.state.Rotated(taskID)
	if !ok {
		return nil, false
	}
	digest, err := pki.PublicKeyDigest(cert.PublicKey)
	if err != nil {
		return nil, false
	}
	return &taskcatalog.RotateIdentityResult{
		Serial: pki.Serial(cert), KeySHA256: strings.TrimPrefix(digest, "sha256:"), NotAfter: cert.NotAfter.UTC(),
	}, true
}

// tryRotation is a single try, over the network.
func (a *Agent) tryRotation(ctx context.Context, taskID string) error {
	err := a.state.Rotate(ctx, taskID, a.Key, a.nodeReport.Load().report, a.requestKey,
		func(ctx context.Context, m *identity.Member) error {
			return a.proveKey(ctx, m, taskID)
		})
	if err == nil {
		m := a.state.Member()
		a.Log.Info("changed the node's key", zap.String("node", m.NodeID), zap.String("task", taskID),
			zap.String("serial", pki.Serial(m.Cert.Leaf)), zap.Time("until", m.Cert.Leaf.NotAfter))
		if a.state.Unsaved() {
			a.Log.Warn("cannot write the new certificate; the agent uses it from memory", zap.String("node", m.NodeID))
		}
	}
	return err
}

// requestKey sends the request for a new key with the certificate in force.
func (a *Agent) requestKey(ctx context.Context, r wire.RenewRequest) (*wire.RenewReply, error) {
	client, err := a.uplink()
	if err != nil {
		return nil, err
	}
	a.at("before the key change is requested", r.RotationTask)
	reply, err := client.Renew(ctx, r)
	a.at("after the key change is requested", r.RotationTask)
	if refusal, ok := uplink.RefusalOf(err); ok {
		// The broker refuses the node for the moment, or refuses this key.
		conflict := refusal.Code == "identity_conflict"
		if conflict || refusal.Permanent() && !refusedMember(err) && refusal.Code != codeLeaseLost {
			return nil, errors.Join(identity.ErrRotationOver, err)
		}
	}
	return reply, err
}

// proveKey makes a request with the node's new key. The broker authenticates the node before it
// evaluates the request, so any answer to the request will do.
func (a *Agent) proveKey(ctx context.Context, m *identity.Member, taskID string) error {
	client, err := a.uplinkAs(m)
	if err != nil {
		return err
	}
	defer client.Close()
	e, _, err := a.ledger.Get(taskID)
	if err != nil {
		return err
	}
	a.at("before the new key is confirmed", taskID)
	defer a.at("after the new key is confirmed", taskID)
	_, err = client.Progress(ctx, taskID, wire.ProgressRequest{
		Attempt: e.Attempt, TotalSteps: 1, CurrentStepName: "rotate_identity", StepStatus: "running", StepStartedAt: a.Now().UTC(),
	})
	if refusal, ok := uplink.RefusalOf(err); ok && refusal.Code == pki.CodeCertificateExpired {
		err = a.renewAs(ctx, client, m)
	}
	if refusedMember(err) {
		return errors.Join(identity.ErrKeyRefused, err)
	}
	if refusal, ok := uplink.RefusalOf(err); ok && refusal.Permanent() {
		return nil
	}
	return err
}

// renewAs presents an expired certificate in a renewal, the only request that still accepts an
// expired certificate. The renewed certificate is discarded: the main loop renews again once the
// key is the node's.
func (a *Agent) renewAs(ctx context.Context, client *uplink.Client, m *identity.Member) error {
	csr, err := pki.NewCSR(m.Key)
	if err != nil {
		return err
	}
	r := a.nodeReport.Load().report
	_, err = client.Renew(ctx, wire.RenewRequest{
		CSR: string(csr), AgentVersion: r.AgentVersion, TaskTypes: r.TaskTypes, Capabilities: r.Capabilities, Facts: r.Facts,
		Agent: r.Agent, TrustVersion: m.Trust.Version,
	})
	return err
}

// settleRotation completes a key rotation left by an earlier process, or by a task whose time is
// over. Until then the node does nothing else, because it does not know which key is its identity.
func (a *Agent) settleRotation(ctx context.Context) error {
	taskID := a.state.Rotating()
	a.mu.Lock()
	runs := a.running[taskID] != nil
	a.mu.Unlock()
	if taskID == "" || runs {
		return nil
	}
	// The failed task's result is sent first: with this result the broker takes the new key back.
	// Otherwise the node would have a new key from a task that has failed. A broker that knows the
	// node only by the new key does not accept the result yet.
	if e, known, err := a.ledger.Get(taskID); err == nil && known && e.Unreported() && e.Result.Outcome != taskcatalog.OutcomeSucceeded {
		if err := a.sendAll(ctx); err != nil && !permanentRefusal(err) && !refusedMember(err) {
			return err
		}
	}
	err := a.tryRotation(ctx, taskID)
	if refusal, ok := uplink.RefusalOf(err); ok && refusal.Code == codeLeaseLost {
		err = errors.Join(identity.ErrRotationOver, err, a.state.GiveUpRotation(taskID))
	}
	switch {
	case errors.Is(err, identity.ErrRotationOver) && a.state.Rotating() == "":
		a.Log.Warn("the node keeps its old key", zap.String("task", taskID), zap.Error(err))
	case refusedMember(err):
		return a.rejoin(ctx, err)
	case err != nil:
		return err
	}
	a.recoverTasks()
	return nil
}

// permanentRefusal reports whether the broker has refused for good.
func permanentRefusal(err error) bool {
	r, ok := uplink.RefusalOf(err)
	return ok && r.Permanent()
}

// withCurrentKey returns evidence signed by the node's present key. Evidence gathered before a key
// rotation is signed again, because the broker accepts no signature of an earlier key.
func (a *Agent) withCurrentKey(evidence string, m *identity.Member) string {
	if evidence == "" {
		return ""
	}
	if _, err := pki.VerifyEvidence([]byte(evidence), m.Key.Public()); err == nil {
		return evidence
	}
	signed, err := pki.ResignEvidence([]byte(evidence), m.Key)
	if err != nil {
		a.Log.Error("cannot sign evidence by the node's new key", zap.Error(err))
		return evidence
	}
	return string(signed)
}
