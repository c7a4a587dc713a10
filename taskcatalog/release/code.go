package release

import (
	"fmt"

	"github.com/hostler/hostler/taskcatalog"
)

// The codes of refusals. They are wire names.
const (
	CodeDigestMismatch   taskcatalog.Code = "release_digest_mismatch"   // not the bytes that were asked for
	CodeSignatureInvalid taskcatalog.Code = "release_signature_invalid" // no signature of it by a release key in force
	CodeManifestInvalid  taskcatalog.Code = "release_manifest_invalid"
	CodeStatementInvalid taskcatalog.Code = "release_statement_invalid"
	CodeBinaryMismatch   taskcatalog.Code = "release_binary_mismatch" // the program is not the one that the statement names
	CodeVersionWrong     taskcatalog.Code = "release_version_wrong"   // another version than was asked for
	CodeArchWrong        taskcatalog.Code = "release_arch_wrong"
	CodeBelowFloor       taskcatalog.Code = "release_below_floor"
	CodeStateUnreadable  taskcatalog.Code = "release_state_unreadable" // it does not read the state that is there
	CodeProtocolWrong    taskcatalog.Code = "release_protocol_wrong"
	CodeRevoked          taskcatalog.Code = "release_revoked" // said by a broker: nothing in the release does
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
