package pki

import (
	"slices"
	"time"
)

// check refuses a bundle that contradicts itself. check does not ask which keys are in force: a
// bundle read back years later is still well formed.
func (b *TrustBundle) check() error {
	if b.Version < 1 || b.IssuedAt.IsZero() {
		return refuse(CodeMalformed, "cannot use trust bundle: it has no version or no date")
	}
	if len(b.Keys) > maxBundleKeys {
		return refuse(CodeTooLarge, "cannot use trust bundle version %d: %d keys, at most %d", b.Version, len(b.Keys), maxBundleKeys)
	}
	uses := map[string]KeyUse{} // by SPKI, so that a root's key counts as well
	for i := range b.Keys {
		k := &b.Keys[i]
		pub, err := k.public()
		if err != nil {
			return err
		}
		if !k.NotBefore.Before(k.NotAfter) {
			return refuse(CodeMalformed, "cannot use trust bundle version %d: %s key %s ends before it begins", b.Version, k.Use, k.ID)
		}
		if first := b.find(k.Use, k.ID); first != k {
			return refuse(CodeMalformed, "cannot use trust bundle version %d: %s key %s is in it twice", b.Version, k.Use, k.ID)
		}
		der, err := marshalPublic(pub)
		if err != nil {
			return err
		}
		if use, ok := uses[string(der)]; ok && use != k.Use {
			return refuse(CodeTrustKeyTwoUses, "cannot use trust bundle version %d: key %s is a %s key and a %s key (one use per key)",
				b.Version, k.ID, use, k.Use)
		}
		uses[string(der)] = k.Use
	}
	return nil
}

// checkUses refuses a bundle that leaves one of uses without a key in force.
func (b *TrustBundle) checkUses(uses []KeyUse, now time.Time) error {
	for _, use := range uses {
		if !slices.ContainsFunc(b.Keys, func(k BundleKey) bool { return k.Use == use && k.InForce(now) }) {
			return refuse(CodeTrustUseWithoutKey, "cannot take trust bundle version %d: no %s key in it is in force at %s", b.Version, use,
				stamp(now))
		}
	}
	return nil
}
