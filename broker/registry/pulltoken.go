package registry

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Records are the broker's records.
type Records interface {
	AgentRelease(ctx context.Context, version string) (store.AgentRelease, error)
	RegistryCredential(ctx context.Context, registry string) (broker.RegistryCredential, error)
}

// Pulls provides pull credentials for updates.
type Pulls struct {
	Records Records
	Secrets Keeper
	Client  *Client
	// Signed returns the task in an envelope, once the broker's own signature holds.
	Signed func(envelope []byte) (*taskcatalog.Task, error)
}

// Of obtains a token for a task: a taskcatalog.OCIPullCredential as JSON. The token permits a pull
// from the location of the release on record, which must match the task as signed. The caller must
// know that the task still belongs to the node. Codes: credential_refused, agent_release_unknown,
// release_revoked, registry_credential_not_found, registry_plain_http, those of Client.pull and of
// the account.
func (p *Pulls) Of(ctx context.Context, task broker.Task) (broker.Minted, error) {
	r, err := p.release(ctx, task)
	if err != nil {
		return broker.Minted{}, err
	}
	host, repository := broker.RegistryOf(r.Reference, r.PlainHTTP)
	record, err := p.Records.RegistryCredential(ctx, host)
	if err != nil {
		return broker.Minted{}, err
	}
	if r.PlainHTTP && !record.PlainHTTP {
		return broker.Minted{}, broker.Errorf(broker.Refused, "registry_plain_http",
			"cannot mint a pull token for task %s: release %s is published with --plain-http, and the credential of registry %s is for TLS (publish the release again without --plain-http)", task.ID, r.Version, host)
	}
	return p.token(ctx, record, repository, "pull "+r.Reference+"@"+r.Digest)
}

// token asks the registry for a token that permits to pull a repository. opens is for the audit log.
func (p *Pulls) token(ctx context.Context, record broker.RegistryCredential, repository, opens string) (broker.Minted, error) {
	account, err := accountOf(ctx, p.Secrets, record)
	if err != nil {
		return broker.Minted{}, err
	}
	made, err := p.Client.pull(ctx, record, account, repository)
	if err != nil {
		return broker.Minted{}, err
	}
	secret, err := json.Marshal(taskcatalog.OCIPullCredential{Token: made.text})
	return broker.Minted{Secret: string(secret), Expires: made.expires, Opens: opens}, err
}

// task returns the task as this broker signed it.
func (p *Pulls) task(task broker.Task) (*taskcatalog.Task, error) {
	signed, err := p.Signed(task.Envelope)
	if err != nil || signed.TaskID != task.ID || signed.NodeID != task.NodeID || signed.NodeEpoch != task.NodeEpoch ||
		signed.Type != task.Type {
		return nil, errors.New("the task differs from what this broker signed")
	}
	return signed, nil
}

// release returns the release of a task, if the record matches the task.
func (p *Pulls) release(ctx context.Context, task broker.Task) (store.AgentRelease, error) {
	refuse := func(why string) (store.AgentRelease, error) {
		return store.AgentRelease{}, broker.Errorf(broker.Forbidden, "credential_refused", "cannot mint a pull token for task %s: %s",
			task.ID, why)
	}
	signed, err := p.task(task)
	if err != nil {
		return refuse(err.Error())
	}
	var u taskcatalog.SelfUpdateParams
	if json.Unmarshal(signed.Params, &u) != nil || u.Manifest == nil || u.Source == nil ||
		u.Source.Credential != taskcatalog.CredentialOCIPull {
		return refuse("the release is at no registry that needs a credential")
	}
	r, err := p.Records.AgentRelease(ctx, u.Version)
	switch {
	case err != nil:
		return r, err
	case r.Digest != u.Manifest.Digest || r.Reference != u.Source.Repository || r.PlainHTTP != u.Source.PlainHTTP:
		return refuse("release " + r.Version + " is recorded at another place, or with another digest (start the update again)")
	case r.Revoked():
		return r, broker.Errorf(broker.Refused, string(release.CodeRevoked),
			"cannot mint a pull token for task %s: release %s was revoked by %s", task.ID, r.Version, r.RevokedBy)
	}
	return r, nil
}
