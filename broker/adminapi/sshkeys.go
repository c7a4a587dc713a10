package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/tenancy"
)

type sshKeysInput struct {
	MemberInput
	TenantPageInput
}

func (a *API) listSSHKeys(ctx context.Context, in *sshKeysInput) (*api.SSHKeyList, error) {
	m, err := a.member(ctx, in.Member)
	if err != nil {
		return nil, err
	}
	page, next, err := a.c.DB.SSHKeys(ctx, m.ID, in.page(broker.Place{}))
	if err != nil {
		return nil, err
	}
	return &api.SSHKeyList{Items: resources(page, sshKeyResource), Next: next}, nil
}

type addSSHKeyInput struct {
	MemberInput
	Body api.SSHKeyAdd
}

func (a *API) addSSHKey(ctx context.Context, in *addSSHKeyInput) (*api.SSHKey, error) {
	m, err := a.member(ctx, in.Member)
	if err != nil {
		return nil, err
	}
	if err := a.refusedMember(ctx, "ssh_key.add", m, tenancy.MayChangeKeys(callerOf(ctx).OperatorToken, m)); err != nil {
		return nil, err
	}
	return resource(sshKeyResource)(a.c.Tenants.AddSSHKey(withReason(ctx, in.Body.Reason), callerOf(ctx).actor(), m.ID, in.Body.PublicKey))
}

type endSSHKeyInput struct {
	MemberInput
	Key string `path:"key" maxLength:"64"`
	Reason
}

// endSSHKey implements DELETE: the record stays.
func (a *API) endSSHKey(ctx context.Context, in *endSSHKeyInput) (*api.SSHKey, error) {
	m, err := a.member(ctx, in.Member)
	if err != nil {
		return nil, err
	}
	if err := a.refusedMember(ctx, "ssh_key.end", m, tenancy.MayChangeKeys(callerOf(ctx).OperatorToken, m)); err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "ssh_key.end", "member/"+m.ID, "remove a key of member "+m.Subject)
	if err != nil {
		return nil, err
	}
	return resource(sshKeyResource)(a.c.Tenants.EndSSHKey(ctx, callerOf(ctx).actor(), m.ID, in.Key, reason))
}

func sshKeyResource(k broker.SSHKey) api.SSHKey {
	return api.SSHKey{
		ID: k.ID, MemberID: k.MemberID, Type: k.Type, PublicKey: k.PublicKey, Fingerprint: k.Fingerprint, Comment: k.Comment,
		CreatedAt: k.CreatedAt, EndedAt: timeOrNull(k.EndedAt),
	}
}
