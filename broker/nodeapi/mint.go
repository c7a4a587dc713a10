package nodeapi

import (
	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// mint answers with a secret that a task may have: only that task's node, while
// its lease holds, once per attempt. The answer is written down nowhere.
func (a *API) mint(c *call) (any, error) {
	var req wire.MintRequest
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	req.CredentialType = taskcatalog.Clean(req.CredentialType, 64)
	ctx, id := c.r.Context(), c.r.PathValue("task_id")
	task, err := a.c.DB.Task(ctx, id)
	if err == nil && task.NodeID != c.peer.NodeID {
		err = broker.Errorf(broker.NotFound, "task_not_found", "cannot mint a credential: node %s has no such task", c.peer.NodeID)
	}
	if err != nil {
		return nil, err
	}
	if err := a.c.DB.BeginMint(ctx, c.peer.NodeID, c.peer.Epoch, task.ID, req.Attempt, req.CredentialType); err != nil {
		return nil, inAudit(err)
	}
	key, err := pki.PublicKeyDigest(c.peer.Cert.PublicKey)
	if err != nil {
		return nil, err
	}
	// Had before it is recorded, so that a vault that is away costs no attempt;
	// given away only after.
	made, err := a.c.Minter.Mint(ctx, task, req.CredentialType, key)
	if err != nil {
		return nil, err
	}
	err = a.c.DB.RecordMint(ctx, c.peer.NodeID, c.peer.Epoch, task.ID, req.Attempt, req.CredentialType, made.Opens)
	if err != nil {
		return nil, inAudit(err)
	}
	return wire.MintReply{CredentialType: req.CredentialType, Secret: made.Secret, ExpiresAt: made.Expires.UTC()}, nil
}
