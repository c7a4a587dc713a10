package adminapi

import (
	"context"
	"crypto/rand"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/artifactsource"
)

// SourceCredentialInput names an account at a source of artifacts.
type SourceCredentialInput struct {
	Name string `path:"name" maxLength:"63" doc:"name of the source credential"`
}

func (a *API) listSourceCredentials(ctx context.Context, in *PageInput) (*api.SourceCredentialList, error) {
	all, err := a.c.DB.SourceCredentials(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.SourceCredentialList{Items: make([]api.SourceCredential, len(all))}
	for i, c := range all {
		out.Items[i] = api.SourceCredential(c)
	}
	return out, cut(*in, &out.Items, &out.Next, func(c api.SourceCredential) string { return c.Name })
}

type setSourceInput struct {
	SourceCredentialInput
	Body api.SourceCredentialPut
}

// setSourceCredential writes the record before the secret, and both carry the same generation. A crash
// between the two leaves a pair that is refused when used; the same request repeated repairs it.
func (a *API) setSourceCredential(ctx context.Context, in *setSourceInput) (*api.SourceCredential, error) {
	c := broker.SourceCredential{
		Name: in.Name, Source: in.Body.Source, Endpoint: in.Body.Endpoint, Region: in.Body.Region, KeyID: in.Body.KeyID,
		Generation: rand.Text(),
	}.Defaults()
	err := c.Check(in.Body.Secret)
	if err != nil {
		return nil, err
	}
	if c.Reason, err = a.reasonFor(ctx, in.Body.Reason, "source_credential.set", "source/"+c.Name,
		"store source credential "+c.Name); err != nil {
		return nil, err
	}
	a.credentials.Lock()
	defer a.credentials.Unlock()
	if c, err = a.c.DB.PutSourceCredential(ctx, callerOf(ctx).actor(), c); err != nil {
		return nil, err
	}
	if err := artifactsource.Put(ctx, a.c.Secrets, c, in.Body.Secret); err != nil {
		return nil, err
	}
	out := api.SourceCredential(c)
	return &out, nil
}

type removeSourceInput struct {
	SourceCredentialInput
	Reason
}

// removeSourceCredential deletes the secret first: a record without a secret is refused when used, and
// can be removed again.
func (a *API) removeSourceCredential(ctx context.Context, in *removeSourceInput) (*api.SourceCredential, error) {
	c, err := a.c.DB.SourceCredential(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "source_credential.remove", "source/"+c.Name, "remove source credential "+c.Name)
	if err != nil {
		return nil, err
	}
	a.credentials.Lock()
	defer a.credentials.Unlock()
	if err := a.c.Secrets.Delete(ctx, c.VaultPath); err != nil {
		return nil, err
	}
	if c, err = a.c.DB.RemoveSourceCredential(ctx, callerOf(ctx).actor(), c.Name, reason); err != nil {
		return nil, err
	}
	out := api.SourceCredential(c)
	return &out, nil
}
