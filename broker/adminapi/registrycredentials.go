package adminapi

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/registry"
	"github.com/hostler/hostler/taskcatalog"
)

// RegistryInput names a registry.
type RegistryInput struct {
	Registry string `path:"registry" maxLength:"300" doc:"HOST[:PORT]"`
}

func (a *API) listRegistryCredentials(ctx context.Context, in *PageInput) (*api.RegistryCredentialList, error) {
	all, err := a.c.DB.RegistryCredentials(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.RegistryCredentialList{Items: make([]api.RegistryCredential, len(all))}
	for i, c := range all {
		out.Items[i] = api.RegistryCredential(c)
	}
	return out, cut(*in, &out.Items, &out.Next, func(c api.RegistryCredential) string { return c.Registry })
}

type setRegistryInput struct {
	RegistryInput
	Body api.RegistryCredentialPut
}

// setRegistryCredential tries an account before anything is stored. The record is written before
// the secret, and both carry the same generation. A crash between the two leaves a pair that is
// refused when used; the same request repeated repairs it.
func (a *API) setRegistryCredential(ctx context.Context, in *setRegistryInput) (*api.RegistryCredential, error) {
	c := broker.RegistryCredential{
		Registry: taskcatalog.RegistryName(in.Registry, in.Body.PlainHTTP), Username: in.Body.Username,
		PlainHTTP: in.Body.PlainHTTP, Generation: rand.Text(),
	}
	account, err := registry.NewAccount(c, in.Body.Password)
	if err != nil {
		return nil, err
	}
	if c.Reason, err = a.reasonFor(ctx, in.Body.Reason, "registry_credential.set", "registry/"+c.Registry,
		"store a credential of registry "+c.Registry); err != nil {
		return nil, err
	}
	if account, err = a.c.Registries.Try(ctx, c, account); err != nil {
		return nil, err
	}
	a.credentials.Lock()
	defer a.credentials.Unlock()
	if c, err = a.c.DB.PutRegistryCredential(ctx, callerOf(ctx).actor(), c); err != nil {
		return nil, err
	}
	if err := registry.Put(ctx, a.c.Secrets, c, account); err != nil {
		return nil, err
	}
	out := api.RegistryCredential(c)
	return &out, nil
}

// registryCredential finds a record by any name of its registry. Code:
// registry_credential_not_found.
func (a *API) registryCredential(ctx context.Context, name string) (broker.RegistryCredential, error) {
	for _, plain := range []bool{false, true} {
		c, err := a.c.DB.RegistryCredential(ctx, taskcatalog.RegistryName(name, plain))
		if err == nil && c.PlainHTTP == plain {
			return c, nil
		}
		if err != nil && broker.AsError(err).Kind != broker.NotFound {
			return c, err
		}
	}
	return a.c.DB.RegistryCredential(ctx, strings.ToLower(name))
}

type removeRegistryInput struct {
	RegistryInput
	Reason
}

// removeRegistryCredential deletes the secret first: a record without a secret is refused when
// used, and can be removed again.
func (a *API) removeRegistryCredential(ctx context.Context, in *removeRegistryInput) (*api.RegistryCredential, error) {
	c, err := a.registryCredential(ctx, in.Registry)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "registry_credential.remove", "registry/"+c.Registry,
		"remove the credential of registry "+c.Registry)
	if err != nil {
		return nil, err
	}
	a.credentials.Lock()
	defer a.credentials.Unlock()
	if err := a.c.Secrets.Delete(ctx, c.VaultPath); err != nil {
		return nil, err
	}
	if c, err = a.c.DB.RemoveRegistryCredential(ctx, callerOf(ctx).actor(), c.Registry, reason); err != nil {
		return nil, err
	}
	out := api.RegistryCredential(c)
	return &out, nil
}
