package nodeapi

import (
	"net/http"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// mint answers with a secret for a task: only to that task's node, while the task's lease holds,
// once per attempt. The answer is never stored. After a lost answer the secret is made anew for the
// same request, if that reveals nothing more.
func (a *API) mint(c *call) (any, error) {
	var req wire.MintRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	req.CredentialType, req.StepID = taskcatalog.Clean(req.CredentialType, 64), taskcatalog.Clean(req.StepID, 64)
	end := MintEnd{Type: req.CredentialType, Step: req.StepID, Begun: a.c.Now()}
	task, err := a.minting(c)
	var reply any
	if err == nil {
		end.Task = task
		reply, err = a.minted(c, task, req)
	}
	end.Ended, end.Err = a.c.Now(), err
	a.c.Minted(end)
	return reply, err
}

// MintEnd is the end of a node's request for a credential.
type MintEnd struct {
	Task         broker.Task // zero: the node has no such task
	Type, Step   string      // as the node named them
	Begun, Ended time.Time
	Err          error // of the refusal
}

// minting is the task that the node asks for a credential for.
func (a *API) minting(c *call) (broker.Task, error) {
	task, err := a.c.DB.Task(c.r.Context(), c.r.PathValue("task_id"))
	if err == nil && task.NodeID != c.peer.NodeID {
		err = broker.Errorf(broker.NotFound, "task_not_found", "cannot mint a credential: node %s does not have this task", c.peer.NodeID)
	}
	return task, err
}

func (a *API) minted(c *call, task broker.Task, req wire.MintRequest) (any, error) {
	ctx := c.r.Context()
	request, err := requestID(c.r)
	if err != nil {
		return nil, err
	}
	m := store.Mint{
		NodeID: c.peer.NodeID, Epoch: c.peer.Epoch, TaskID: task.ID, Attempt: req.Attempt, Type: req.CredentialType, Step: req.StepID,
		Request: request,
	}
	if err := a.c.DB.BeginMint(ctx, m); err != nil {
		return nil, inAudit(err)
	}
	key, err := pki.PublicKeyDigest(c.peer.Cert.PublicKey)
	if err != nil {
		return nil, err
	}
	// The secret is made before the mint is recorded, so that an unreachable vault costs no
	// attempt. The secret is given out only after the record.
	made, err := a.c.Minter.Mint(ctx, task, broker.MintAsk{Type: req.CredentialType, Step: req.StepID, KeyDigest: key})
	if err != nil {
		return nil, err
	}
	if err := a.c.DB.RecordMint(ctx, m, made.Opens); err != nil {
		return nil, inAudit(err)
	}
	return wire.MintReply{CredentialType: req.CredentialType, Secret: made.Secret, ExpiresAt: made.Expires.UTC()}, nil
}

// requestID is the node's id for its request; empty: none.
func requestID(r *http.Request) (string, error) {
	said := r.Header.Values(wire.HeaderRequest)
	switch {
	case len(said) == 0:
		return "", nil
	case len(said) == 1 && wire.ValidInstance(said[0]):
		return said[0], nil
	}
	return "", broker.Errorf(broker.Invalid, "bad_request_id",
		"cannot mint a credential: the header %s must be one id of 32 lower-case hexadecimal digits, or absent", wire.HeaderRequest)
}
