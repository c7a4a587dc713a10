package release

import (
	"fmt"

	"github.com/hostler/hostler/taskcatalog"
)

// The codes of refusals. They are wire names.
const (
	CodeDigestMismatch   taskcatalog.Code = "release_digest_mismatch"   // the bytes have another digest than requested
	CodeSignatureInvalid taskcatalog.Code = "release_signature_invalid" // no signature by a release key in force
	CodeManifestInvalid  taskcatalog.Code = "release_manifest_invalid"
	CodeStatementInvalid taskcatalog.Code = "release_statement_invalid"
	CodeBinaryMismatch   taskcatalog.Code = "release_binary_mismatch" // the program does not match the statement
	CodeVersionWrong     taskcatalog.Code = "release_version_wrong"   // another version than requested
	CodeArchWrong        taskcatalog.Code = "release_arch_wrong"
	CodeBelowFloor       taskcatalog.Code = "release_below_floor"
	CodeStateUnreadable  taskcatalog.Code = "release_state_unreadable" // the program cannot read the node's present state
	CodeProtocolWrong    taskcatalog.Code = "release_protocol_wrong"
	CodeRevoked          taskcatalog.Code = "release_revoked" // returned by a broker: the release itself does not say
)

func refuse(code taskcatalog.Code, format string, args ...any) error {
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
