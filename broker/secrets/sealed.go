package secrets

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/hostler/hostler/broker"
)

// maxIdentities bounds a file of identities, or of recipients.
const maxIdentities = 1 << 20

// Seal returns a writer that encrypts to each of the recipients and must be closed. The recipients
// are age's own, age1… or age1pq…, all of one kind. Code: recipient_invalid.
func Seal(w io.Writer, recipients []string) (io.WriteCloser, error) {
	parsed, err := age.ParseRecipients(strings.NewReader(strings.Join(recipients, "\n")))
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "recipient_invalid",
			"cannot encrypt: a recipient is not an age recipient (age-keygen prints them: age1…)")
	}
	sealed, err := age.Encrypt(w, parsed...)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "recipient_invalid", "cannot encrypt to these recipients: %v", err)
	}
	return sealed, nil
}

// Unseal decrypts the output of Seal with the identities in a file that only its owner may read.
// Data read so far is authentic; completeness is proved only at the end of the input. Codes:
// identity_open, identity_invalid, identity_other, sealed_damaged.
func Unseal(r io.Reader, identityFile string) (io.Reader, error) {
	ids, err := identities(identityFile)
	if err != nil {
		return nil, err
	}
	opened, err := age.Decrypt(r, ids...)
	var other *age.NoIdentityMatchError
	switch {
	case errors.As(err, &other):
		return nil, broker.Errorf(broker.Refused, "identity_other",
			"cannot decrypt: the file is encrypted to other identities than those in %s", identityFile)
	case err != nil:
		return nil, broker.Errorf(broker.Refused, "sealed_damaged", "cannot decrypt: not an age file, or its header is damaged")
	}
	return opened, nil
}

func identities(path string) ([]age.Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "identity_invalid", "cannot read the identity %s: %v", path, plain(err))
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "identity_invalid", "cannot read the identity %s: %v", path, plain(err))
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, broker.Errorf(broker.Refused, "identity_open", "cannot use the identity %s: other users can read the file (chmod 600)",
			path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxIdentities))
	if err == nil {
		var ids []age.Identity
		if ids, err = age.ParseIdentities(bytes.NewReader(raw)); err == nil {
			return ids, nil
		}
	}
	// The cause is left out: it may quote the key.
	return nil, broker.Errorf(broker.Invalid, "identity_invalid", "cannot use %s: the file contains no age identity (AGE-SECRET-KEY-…)",
		path)
}
