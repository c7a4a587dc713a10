package pki

import (
	"fmt"

	"github.com/hostler/hostler/taskcatalog"
)

// Error is a refusal: a stable code for programs and a sentence for people. Neither contains a
// secret; text from outside is quoted and bounded. Read the code with taskcatalog.CodeOf.
type Error = taskcatalog.Error

// The codes of refusals. They go onto the wire and into the audit log.
const (
	CodeMalformed        = taskcatalog.CodeMalformed        // not in the accepted form
	CodeTooLarge         = taskcatalog.CodeTooLarge         // refused before it was parsed
	CodeWrongPayloadType = taskcatalog.CodeWrongPayloadType // signed as another type than expected
	CodeUnknownKey       = taskcatalog.CodeUnknownKey       // no signature by a key known for this use
	CodeBadSignature     = taskcatalog.CodeBadSignature     // a signature by a known key does not hold

	CodeNotCanonical  taskcatalog.Code = "not_canonical"          // not in the canonical form
	CodeKeyNotInForce taskcatalog.Code = "key_not_in_force"       // signed by a known key outside its validity
	CodeKeyType       taskcatalog.Code = "key_type_unsupported"   // neither Ed25519 nor P-256
	CodeKeyScheme     taskcatalog.Code = "key_scheme_unsupported" // no opener for the URI's scheme
	CodeKeyUnreadable taskcatalog.Code = "key_unreadable"
	CodeKeyMismatch   taskcatalog.Code = "key_mismatch" // a key in a place of another key

	CodeNodeIdentity             taskcatalog.Code = "node_identity_invalid"
	CodeServerNameMissing        taskcatalog.Code = "server_name_missing"
	CodeServerNameMismatch       taskcatalog.Code = "server_name_mismatch"
	CodePinMismatch              taskcatalog.Code = "ca_pin_mismatch"
	CodeIssuerNotInForce         taskcatalog.Code = "issuer_not_in_force"
	CodeCertificateRequired      taskcatalog.Code = "certificate_required"
	CodeCertificateInvalid       taskcatalog.Code = "certificate_invalid"
	CodeCertificateUnknownCA     taskcatalog.Code = "certificate_unknown_authority"
	CodeCertificateWrongUsage    taskcatalog.Code = "certificate_wrong_usage"
	CodeCertificateNotYetValid   taskcatalog.Code = "certificate_not_yet_valid"
	CodeCertificateExpired       taskcatalog.Code = "certificate_expired"
	CodeCertificateDenied        taskcatalog.Code = "certificate_denied"
	CodeTrustVersionNotNewer     taskcatalog.Code = "trust_version_not_newer"
	CodeTrustKeyUnknown          taskcatalog.Code = "trust_key_unknown"
	CodeTrustKeyTwoUses          taskcatalog.Code = "trust_key_two_uses"
	CodeTrustUseWithoutKey       taskcatalog.Code = "trust_use_without_key"
	CodeTrustStatementKeyDropped taskcatalog.Code = "trust_statement_key_dropped"
)

func refuse(code taskcatalog.Code, format string, args ...any) *Error {
	return taskcatalog.Errorf(code, format, args...)
}

// quote makes text from outside fit for an error message.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%+q and %d bytes more", s[:most], len(s)-most)
	}
	return fmt.Sprintf("%+q", s)
}
