package adminapi

import (
	"fmt"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/signature"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// verifiedTwice verifies a release, and has its signatures judged by a second verifier: Hostler's own is the one
// that nodes use, and the other is cosign's library. A fault of one of them makes no release. Codes: those of
// release.Verify, release_verifiers_disagree.
func verifiedTwice(r store.AgentRelease, keys release.Keys) (*release.Manifest, *release.Statement, error) {
	m, s, own := release.Verify(r.Manifest, r.Statement, r.Signatures, keys, r.Digest)
	if own != nil && taskcatalog.CodeOf(own, "") != release.CodeSignatureInvalid {
		return nil, nil, own // it has nothing to do with signatures
	}
	ownKey := ""
	if m != nil {
		ownKey = m.KeyID
	}
	cosignsKey, cosigns := signature.Release(r.Signatures, keys, r.Digest)
	return m, s, agreed(r.Digest, ownKey, own, cosignsKey, cosigns)
}

// agreed returns what both verifiers say of a release, each with the key or an error.
func agreed(digest, ownKey string, own error, cosignsKey string, cosigns error) error {
	var says string
	switch {
	case own != nil && cosigns != nil:
		return own
	case own != nil:
		says = fmt.Sprintf("cosign's accepts the signature by key %s, and Hostler's own refuses: %v", cosignsKey, own)
	case cosigns != nil:
		says = fmt.Sprintf("Hostler's own accepts the signature by key %s, and cosign's refuses: %v", ownKey, cosigns)
	case ownKey != cosignsKey:
		says = fmt.Sprintf("Hostler's own accepts the signature by key %s, and cosign's that by key %s", ownKey, cosignsKey)
	default:
		return nil
	}
	return broker.Errorf(broker.Refused, "release_verifiers_disagree",
		"cannot publish agent release %s: the two verifiers of signatures disagree: %s (sign it with cosign or hostler agent-release sign, and report this)",
		digest, says)
}
