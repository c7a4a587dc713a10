package pki

import (
	"errors"
	"fmt"
)

// The codes of refusals. They are part of the wire and of the audit log.
const (
	CodeMalformed          = "malformed"            // not in its one accepted form
	CodeTooLarge           = "too_large"            // refused before it was parsed
	CodeWrongPayloadType   = "wrong_payload_type"   // signed as something else than was expected
	CodeUnknownKey         = "unknown_key"          // no signature by a key that is known here
	CodeKeyNotInForce      = "key_not_in_force"     // signed by a known key outside its validity
	CodeBadSignature       = "bad_signature"        // a known key, and the signature does not hold
	CodeKeyUnsupported     = "key_type_unsupported" // neither Ed25519 nor P-256
	CodeKeyScheme          = "key_scheme_unsupported"
	CodeKeyUnreadable      = "key_unreadable"
	CodeKeyMismatch        = "key_mismatch" // a key and a certificate that do not belong together
	CodeNodeIdentity       = "node_identity_invalid"
	CodeNameMissing        = "server_name_missing"
	CodeIssuerNotInForce   = "issuer_not_in_force"
	CodeNoCertificate      = "certificate_required"
	CodeUnknownAuthority   = "certificate_unknown_authority"
	CodeWrongUsage         = "certificate_wrong_usage"
	CodeNotYetValid        = "certificate_not_yet_valid"
	CodeCertificateExpired = "certificate_expired"
	CodeCertificateDenied  = "certificate_denied"
	CodeCertificateInvalid = "certificate_invalid"
	CodeWrongServerName    = "server_name_mismatch"
	CodePinMismatch        = "ca_pin_mismatch"

	CodeTrustVersion    = "trust_version_not_newer"
	CodeTrustKeyUnknown = "trust_key_unknown"
	CodeTrustUse        = "trust_use_without_key"
	CodeTrustTwoUses    = "trust_key_two_uses"
	CodeTrustDropped    = "trust_statement_key_dropped"
)

// Error is a refusal: a stable code for programs and a sentence for people.
// Neither holds a secret; what came from outside is quoted and bounded.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Message }

// CodeOf returns the code of the refusal in err's chain, or "" if there is none.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

func refuse(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// quote makes text from outside fit for an error message.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%+q and %d bytes more", s[:most], len(s)-most)
	}
	return fmt.Sprintf("%+q", s)
}
