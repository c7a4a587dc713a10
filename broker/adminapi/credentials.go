package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/taskcatalog"
)

type credentialsInput struct {
	NodeInput
	Body api.NodeCredentials
}

// setCredentials stores the secrets that a task of this node may mint. The audit row is written
// first: a crash between the two leaves an extra row, never a credential that nobody set.
func (a *API) setCredentials(ctx context.Context, in *credentialsInput) (*api.NodeCredentialsSet, error) {
	n, err := a.node(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	if n.Status == broker.Deleted {
		return nil, broker.Errorf(broker.Refused, "node_deleted", "cannot store credentials: node %s is deleted", n.ID)
	}
	t := in.Body.MAASMachineToken
	if _, err := t.Rack(); err != nil {
		return nil, broker.Errorf(broker.Invalid, string(taskcatalog.CodeMAASTokenInvalid), "cannot store the token of node %s: %v", n.ID,
			err)
	}
	raw, err := taskcatalog.Encode(t)
	if err != nil {
		return nil, err
	}
	e := broker.AuditEntry{Actor: callerOf(ctx).actor().Name, Action: "node.credentials", Subject: "node/" + n.ID, Reason: in.Body.Reason}
	if err := a.c.DB.Audit(ctx, e); err != nil {
		return nil, err
	}
	if err := secrets.PutNodeToken(ctx, a.c.Secrets, n.ID, raw); err != nil {
		return nil, err
	}
	return &api.NodeCredentialsSet{NodeID: n.ID, Set: []string{taskcatalog.CredentialMAASMachineToken}}, nil
}
