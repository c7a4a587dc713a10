package secrets

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/hostler/hostler/broker"
)

// maxValue bounds a secret, in bytes.
const maxValue = 64 << 10

// Keeper keeps secrets by their paths. It is safe for concurrent use.
type Keeper interface {
	// Get reads the secret at path as it is now. Codes: secret_path_invalid,
	// secret_not_found, secret_unreadable, and those of Unreachable.
	Get(ctx context.Context, path string) ([]byte, error)
	// Put sets the secret at path: the old value or the new one is read, never
	// a mixture. Where it fails, either may be in force; it may be called again.
	// Codes: secret_path_invalid, secret_value_invalid, and those of Unreachable.
	Put(ctx context.Context, path string, value []byte) error
	// Ensure returns the secret at path, and sets it to value where there is none. Of
	// any number who do so at once one is heard, and all are given what he set. Codes:
	// those of Get and Put.
	Ensure(ctx context.Context, path string, value []byte) ([]byte, error)
	// Delete removes the secret at path and all that it ever was. That there is
	// none is no error. Codes: secret_path_invalid, and those of Unreachable.
	Delete(ctx context.Context, path string) error
}

var (
	_ Keeper = (*Files)(nil)
	_ Keeper = (*Vault)(nil)
)

// Unreachable reports that a keeper could not answer, for a reason that has
// nothing to do with the secret asked for and that time or an operator mends:
// Vault is down, sealed, slow, takes the broker's login no more or denies it
// the path; the disk fails. Whoever waits should hold, and spend no attempt.
// Codes: secrets_unavailable, secrets_login_failed, secret_forbidden, and
// secret_unreadable and secret_unwritable where they are of kind Unavailable.
func Unreachable(err error) bool {
	var e *broker.Error
	if !errors.As(err, &e) || e.Kind != broker.Unavailable {
		return false
	}
	switch e.Code {
	case "secrets_unavailable", "secrets_login_failed", "secret_forbidden", "secret_unreadable", "secret_unwritable":
		return true
	}
	return false
}

// checkValue refuses what not every keeper could give back. The value itself
// stays out of the error.
func checkValue(path string, value []byte) error {
	refuse := func(why string) error {
		return broker.Errorf(broker.Invalid, "secret_value_invalid", "cannot keep secret %s: %s", path, why)
	}
	if len(value) == 0 {
		return refuse("it is empty")
	}
	if len(value) > maxValue {
		return refuse("it is larger than 64 KiB")
	}
	if !utf8.Valid(value) {
		return refuse("it is no UTF-8 text (encode it first)")
	}
	if doc, ok := document(value); ok && isPlain(doc) {
		return refuse(`it is a JSON object whose only member is "value" (give the text itself)`)
	}
	return nil
}
