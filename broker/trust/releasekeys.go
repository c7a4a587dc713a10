package trust

import (
	"context"
	"crypto"
	"fmt"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// AddReleaseKey makes nodes accept agent releases signed by a key, and returns the key's id. A key
// that is already in force stays unchanged. Codes: rotation_open, trust_key_two_uses,
// key_type_unsupported.
func (a *Authority) AddReleaseKey(ctx context.Context, actor broker.Actor, pub crypto.PublicKey, reason string) (string, error) {
	if err := a.Refresh(ctx); err != nil {
		return "", err
	}
	now := a.o.Now()
	entry, err := pki.NewBundleKey(pki.UseRelease, pub, now.Add(-pki.Backdate), now.Add(keyLife))
	if err != nil {
		return "", refused("add a release key", err)
	}
	if slices.ContainsFunc(live(a.current.Load().bundle, pki.UseRelease, now), func(k pki.BundleKey) bool { return k.ID == entry.ID }) {
		return entry.ID, nil
	}
	next, err := a.next(ctx)
	if err != nil {
		return "", err
	}
	// An expired key may be added again with a new validity.
	next.Keys = append(without(next.Keys, entry.ID), entry)
	return entry.ID, a.change(ctx, actor, next, "add release key "+entry.ID, reason)
}

// RetireReleaseKey makes nodes reject a release key. The last release key in force stays: a node
// would not accept a bundle without a release key. Codes: release_key_unknown, release_key_last,
// rotation_open.
func (a *Authority) RetireReleaseKey(ctx context.Context, actor broker.Actor, id, reason string) error {
	if err := a.Refresh(ctx); err != nil {
		return err
	}
	next, err := a.next(ctx)
	if err != nil {
		return err
	}
	kept := without(next.Keys, id)
	if len(kept) == len(next.Keys) {
		return broker.Errorf(broker.NotFound, "release_key_unknown",
			"cannot retire release key %q: the trust bundle has no such release key (see hostler trust show)", taskcatalog.Clean(id, 64))
	}
	next.Keys = kept
	if len(live(&next, pki.UseRelease, a.o.Now())) == 0 {
		return broker.Errorf(broker.Refused, "release_key_last",
			"cannot retire release key %s: it is the last release key in force (add the next key first: hostler trust add-release-key)", id)
	}
	return a.change(ctx, actor, next, "retire release key "+id, reason)
}

// ReleaseKeys returns the release keys in force, by id.
func (a *Authority) ReleaseKeys() release.Keys {
	return a.current.Load().bundle.ReleaseKeys(a.o.Now())
}

// change puts a bundle in force that replaces none of the broker's own keys. During a rotation
// change is refused, because the bundle to confirm and its date belong to the rotation.
func (a *Authority) change(ctx context.Context, actor broker.Actor, next pki.TrustBundle, what, reason string) error {
	if r, open := a.Rotation(); open {
		return broker.Errorf(broker.Refused, "rotation_open",
			"cannot %s: the rotation of the %s key is not finished (finish it with hostler trust rotate --finish)", what, r.Use)
	}
	if err := a.publish(ctx, actor, next, fmt.Sprintf("%s: %s", what, reason)); err != nil {
		return refused(what, err)
	}
	return nil
}

// refused converts a pki error about an unsuitable key into the broker's refusal.
func refused(what string, err error) error {
	switch code := taskcatalog.CodeOf(err, ""); code {
	case pki.CodeTrustKeyTwoUses, pki.CodeKeyType, pki.CodeMalformed, pki.CodeTooLarge, pki.CodeTrustUseWithoutKey:
		return broker.Errorf(broker.Invalid, string(code), "cannot %s: %v", what, err)
	}
	return err
}

func without(keys []pki.BundleKey, release string) []pki.BundleKey {
	return slices.DeleteFunc(slices.Clone(keys), func(k pki.BundleKey) bool { return k.Use == pki.UseRelease && k.ID == release })
}
