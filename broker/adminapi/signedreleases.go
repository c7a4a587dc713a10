package adminapi

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
	"github.com/hostler/hostler/taskcatalog/release"
)

// A registry and a repository in it, as OCI names them, without tag and digest.
var referenceForm = lazyregexp.New(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,253}[a-zA-Z0-9])?|\[[0-9a-fA-F:]{2,39}\])(?::[0-9]{1,5})?(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)+$`)

type publishSignedInput struct{ Body api.AgentReleasePublish }

// publishSigned stores a release signed by a release key in force. The broker checks content that
// it serves itself to the last byte. Content at a registry is named by the signed digests.
func (a *API) publishSigned(ctx context.Context, in *publishSignedInput) (*api.AgentRelease, error) {
	b := in.Body
	switch {
	case !release.ValidDigest(b.Digest):
		return nil, badRelease("digest %q is not sha256:HEX", b.Digest)
	case !slices.Contains(broker.AgentChannels, broker.AgentChannel(b.Channel)):
		return nil,
			badRelease("%q is not a channel (stable, candidate; or pinned, whose releases go only to nodes that are pinned to the version)",
				b.Channel)
	case b.Reference != "" && !referenceForm.MatchString(b.Reference):
		return nil, badRelease("%q is not HOST[:PORT]/REPOSITORY", b.Reference)
	case b.Reference == "" && b.PlainHTTP:
		return nil, badRelease("%s is only allowed with a registry", "plain_http")
	}
	signatures := make([]release.Signature, len(b.Signatures))
	for i, s := range b.Signatures {
		signatures[i] = release.Signature(s)
	}
	kept, err := a.verified(ctx, store.AgentRelease{
		Digest: b.Digest, Channel: b.Channel, Reference: b.Reference, PlainHTTP: b.PlainHTTP,
		Manifest: b.Manifest, Statement: b.Statement, Signatures: signatures,
	})
	if err == nil {
		kept, err = a.c.DB.PublishRelease(ctx, callerOf(ctx).actor(), kept)
	}
	if err != nil {
		if e := broker.AsError(err); e.Kind == broker.Refused {
			a.auditDenial(ctx, "release.publish", "release/"+b.Digest, "", e)
		}
		return nil, err
	}
	floor, err := a.c.DB.ReleaseFloor(ctx)
	if err != nil {
		return nil, err
	}
	out := a.signedResource(kept, floor)
	return &out, nil
}

// verified checks a release against this broker's trust bundle, and fills in the fields of its
// statement.
func (a *API) verified(ctx context.Context, r store.AgentRelease) (store.AgentRelease, error) {
	m, s, err := verifiedTwice(r, a.c.Trust.ReleaseKeys())
	if err == nil {
		// A release with a newer protocol than this broker's would make the broker lose its nodes.
		err = s.Meets(release.Demand{Version: s.Version, OS: release.OS, Arch: release.Arch, Protocol: release.Protocol})
	}
	if err != nil {
		return r, refusedRelease(err)
	}
	r.Version, r.KeyID = s.Version, m.KeyID
	r.StatementPart, r.LayerPart, r.LayerSize = m.Statement.Digest, m.Layer.Digest, m.Layer.Size
	if r.Reference != "" {
		return r, nil
	}
	_, layer, err := a.c.DB.OpenPackage(ctx, m.Layer.Digest)
	if e := (*broker.Error)(nil); errors.As(err, &e) && e.Kind == broker.NotFound {
		return r, broker.Errorf(broker.Refused, "release_part_missing",
			"cannot publish agent release %s: the broker does not have its layer %s (upload the layer, or name the registry that has it)",
			s.Version, m.Layer.Digest)
	}
	if err != nil {
		return r, err
	}
	if err := m.Unpack(io.Discard, layer, s); err != nil {
		return r, refusedRelease(err)
	}
	for _, part := range [][]byte{r.Manifest, r.Statement} {
		if _, err := a.putPart(ctx, release.Digest(part), strings.NewReader(string(part))); err != nil {
			return r, err
		}
	}
	return r, nil
}

// refusedRelease turns an error of the release package into this broker's refusal.
func refusedRelease(err error) error {
	switch code := taskcatalog.CodeOf(err, ""); code {
	case "":
		return err
	case release.CodeManifestInvalid, release.CodeStatementInvalid:
		return broker.Errorf(broker.Invalid, string(code), "%v", err)
	default:
		return broker.Errorf(broker.Refused, string(code), "%v", err)
	}
}

type partInput struct {
	Digest string `path:"digest" minLength:"64" maxLength:"71" doc:"hex SHA-256 of the layer"`

	hc huma.Context
}

// Resolve keeps the request: its body is streamed, never held in memory.
func (in *partInput) Resolve(hc huma.Context) []error {
	in.hc = hc
	return nil
}

// uploadPart stores the layer of a release that is published next. A layer that no release names is
// deleted after a day.
func (a *API) uploadPart(ctx context.Context, in *partInput) (*api.ReleasePart, error) {
	digest := strings.TrimPrefix(in.Digest, "sha256:")
	if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 || strings.ToLower(digest) != digest {
		return nil, badRelease("digest %q is not a hex SHA-256", in.Digest)
	}
	_ = in.hc.SetReadDeadline(a.c.Now().Add(uploadTime))
	p, err := a.putPart(ctx, "sha256:"+digest, &bounded{from: in.hc.BodyReader(), left: maxPackage})
	if err != nil {
		return nil, err
	}
	return &api.ReleasePart{Digest: p.Digest, Size: p.Size}, nil
}

func (a *API) putPart(ctx context.Context, digest string, r io.Reader) (store.Package, error) {
	return a.c.DB.PutPackage(ctx, callerOf(ctx).actor(), store.Package{Digest: digest, Name: "part of an agent release", Part: true}, r)
}

type revokeReleaseInput struct {
	Version string `path:"version" maxLength:"64"`
	Body    api.ReasonBody
}

func (a *API) revokeRelease(ctx context.Context, in *revokeReleaseInput) (*api.AgentRelease, error) {
	reason, err := a.reasonFor(ctx, in.Body.Reason, "release.revoke", "release/"+taskcatalog.Clean(in.Version, 64),
		"revoke an agent release")
	if err != nil {
		return nil, err
	}
	r, err := a.c.DB.RevokeRelease(ctx, callerOf(ctx).actor(), in.Version, reason)
	if err != nil {
		return nil, err
	}
	floor, err := a.c.DB.ReleaseFloor(ctx)
	if err != nil {
		return nil, err
	}
	out := a.signedResource(r, floor)
	return &out, nil
}

type floorInput struct{ Body api.AgentReleaseFloorPut }

func (a *API) setReleaseFloor(ctx context.Context, in *floorInput) (*api.AgentReleaseFloor, error) {
	if !release.ValidVersion(in.Body.Version) {
		return nil, badRelease("version %q is not semver without v, such as 1.4.0", in.Body.Version)
	}
	reason, err := a.reasonFor(ctx, in.Body.Reason, "release.floor", "release/"+in.Body.Version, "set the floor of agent releases")
	if err != nil {
		return nil, err
	}
	f, err := a.c.DB.SetReleaseFloor(ctx, callerOf(ctx).actor(), in.Body.Version, reason)
	if err != nil {
		return nil, err
	}
	return floorResource(f), nil
}

// signedReleases returns the signed releases on record, newest first, and the floor.
func (a *API) signedReleases(ctx context.Context) ([]api.AgentRelease, *api.AgentReleaseFloor, error) {
	floor, err := a.c.DB.ReleaseFloor(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := a.c.DB.AgentReleases(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	out := make([]api.AgentRelease, len(all))
	for i, r := range all {
		out[i] = a.signedResource(r, floor)
	}
	return out, floorResource(floor), nil
}

func floorResource(f store.ReleaseFloor) *api.AgentReleaseFloor {
	if f.Version == "" {
		return nil
	}
	return &api.AgentReleaseFloor{Version: f.Version, SetBy: f.By, Reason: f.Reason, SetAt: f.At}
}

func (a *API) signedResource(r store.AgentRelease, floor store.ReleaseFloor) api.AgentRelease {
	out := api.AgentRelease{
		Kind: "signed", Digest: r.Digest, Version: r.Version, Size: r.LayerSize, UploadedAt: r.PublishedAt, UploadedBy: r.PublishedBy,
		Channel: r.Channel, Reference: r.Reference, PlainHTTP: r.PlainHTTP, KeyID: r.KeyID,
		BelowFloor: floor.Version != "" && release.Compare(r.Version, floor.Version) < 0,
		RevokedAt:  r.RevokedAt, RevokedBy: r.RevokedBy, RevokedReason: r.RevokedReason,
	}
	if r.Reference == "" {
		out.URL = a.partURL(r.Digest)
	}
	// The statement was verified at publication. A statement in another format is not shown.
	if s, err := release.ParseStatement(r.Statement); err == nil {
		out.Arch = s.Arch
		out.Statement = &api.Statement{
			Commit: s.Commit, OS: s.OS, Arch: s.Arch, BinarySHA256: s.Binary.SHA256, BinarySize: s.Binary.Size,
			StateSchema: api.StateSchema(s.StateSchema), Protocol: s.Protocol, BuiltAt: s.BuiltAt,
		}
	}
	return out
}

func (a *API) partURL(digest string) string {
	return a.c.AgentURL + "/internal/v1/packages/sha256/" + strings.TrimPrefix(digest, "sha256:")
}

// newestFirst orders packages and signed releases as one list.
func newestFirst(all []api.AgentRelease) []api.AgentRelease {
	slices.SortStableFunc(all, func(x, y api.AgentRelease) int { return y.UploadedAt.Compare(x.UploadedAt) })
	return all
}
