package secrets

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/hostler/hostler/broker"
)

// maxValue bounds a secret, in bytes.
const maxValue = 64 << 10

// Keeper stores secrets by path. A Keeper is safe for concurrent use.
type Keeper interface {
	// Get reads the present secret at path. Codes: secret_path_invalid, secret_not_found,
	// secret_unreadable, and those of Unreachable.
	Get(ctx context.Context, path string) ([]byte, error)
	// Put sets the secret at path. Readers get the old value or the new value, never a mixture.
	// After a failure either may be in force, and Put may be repeated. Codes: secret_path_invalid,
	// secret_value_invalid, and those of Unreachable.
	Put(ctx context.Context, path string, value []byte) error
	// Ensure returns the secret at path, and first sets it to value if there is none. Of concurrent
	// callers one succeeds in setting the value, and all get that value. Codes: those of Get and
	// Put.
	Ensure(ctx context.Context, path string, value []byte) ([]byte, error)
	// Delete removes the secret at path and all earlier values. A missing secret is no error.
	// Codes: secret_path_invalid, and those of Unreachable.
	Delete(ctx context.Context, path string) error
}

var (
	_ Keeper = (*Files)(nil)
	_ Keeper = (*Vault)(nil)
)

// Unreachable reports whether err means that the keeper could not answer, for a reason unrelated to
// the secret. Time or an operator removes the reason: Vault is down, sealed or slow, refuses the
// broker's login, or denies the path; the disk fails. Waiting callers should hold, and count no
// attempt. Codes: secrets_unavailable, secrets_login_failed, secret_forbidden, and
// secret_unreadable and secret_unwritable of kind Unavailable.
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

// checkValue refuses a value that some keeper could not give back. The error does not contain the
// value.
func checkValue(path string, value []byte) error {
	refuse := func(why string) error {
		return broker.Errorf(broker.Invalid, "secret_value_invalid", "cannot store secret %s: %s", path, why)
	}
	if len(value) == 0 {
		return refuse("the value is empty")
	}
	if len(value) > maxValue {
		return refuse("the value is larger than 64 KiB")
	}
	if !utf8.Valid(value) {
		return refuse("the value is not UTF-8 text (encode it first)")
	}
	if doc, ok := document(value); ok && isPlain(doc) {
		return refuse(`the value is a JSON object whose only member is "value" (use the text itself)`)
	}
	return nil
}
