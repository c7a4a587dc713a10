package adminapi

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/signature"
)

// ArtifactSignerInput names an artifact signer.
type ArtifactSignerInput struct {
	Name string `path:"name" maxLength:"63" doc:"name of the artifact signer"`
}

func artifactSigner(s broker.ArtifactSigner) api.ArtifactSigner {
	return api.ArtifactSigner{
		Name: s.Name, Source: s.Source, Key: s.Key, Issuer: s.Issuer, Subject: s.Subject, SubjectPattern: s.SubjectPattern,
		Logged: s.TrustedRoot != "", Trust: s.Trust(), TrustedRoot: s.Root(), SetBy: s.SetBy, Reason: s.Reason, SetAt: s.SetAt,
	}
}

func (a *API) listArtifactSigners(ctx context.Context, in *PageInput) (*api.ArtifactSignerList, error) {
	all, err := a.c.DB.ArtifactSigners(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.ArtifactSignerList{Items: make([]api.ArtifactSigner, len(all))}
	for i, s := range all {
		out.Items[i] = artifactSigner(s)
	}
	return out, cut(*in, &out.Items, &out.Next, func(s api.ArtifactSigner) string { return s.Name })
}

type setArtifactSignerInput struct {
	ArtifactSignerInput
	Body api.ArtifactSignerPut
}

func (a *API) setArtifactSigner(ctx context.Context, in *setArtifactSignerInput) (*api.ArtifactSigner, error) {
	s := broker.ArtifactSigner{
		Name: in.Name, Source: in.Body.Source, Key: in.Body.Key, Issuer: in.Body.Issuer, Subject: in.Body.Subject,
		SubjectPattern: in.Body.SubjectPattern, TrustedRoot: in.Body.TrustedRoot,
	}
	err := signature.CheckSigner(s)
	if err != nil {
		return nil, err
	}
	if s.Reason, err = a.reasonFor(ctx, in.Body.Reason, "artifact_signer.set", "signer/"+s.Name, "set artifact signer "+s.Name); err != nil {
		return nil, err
	}
	kept, err := a.c.Operations.SetArtifactSigner(ctx, callerOf(ctx).actor(), s)
	if no := broker.AsError(err); err != nil && no.Kind == broker.Refused {
		a.auditDenial(ctx, "artifact_signer.set", "signer/"+s.Name, "", no)
	}
	if err != nil {
		return nil, err
	}
	out := artifactSigner(kept)
	return &out, nil
}

type removeArtifactSignerInput struct {
	ArtifactSignerInput
	Reason
	AllowUnsigned bool `query:"allow_unsigned" doc:"also if operations could then bring artifacts of its source without a signature"`
}

func (a *API) removeArtifactSigner(ctx context.Context, in *removeArtifactSignerInput) (*api.ArtifactSigner, error) {
	reason, err := a.reasonFor(ctx, in.Reason.Reason, "artifact_signer.remove", "signer/"+in.Name, "remove artifact signer "+in.Name)
	if err != nil {
		return nil, err
	}
	s, err := a.c.Operations.RemoveArtifactSigner(ctx, callerOf(ctx).actor(), in.Name, reason, in.AllowUnsigned)
	if no := broker.AsError(err); err != nil && no.Kind == broker.Refused {
		a.auditDenial(ctx, "artifact_signer.remove", "signer/"+in.Name, "", no)
	}
	if err != nil {
		return nil, err
	}
	out := artifactSigner(s)
	return &out, nil
}
