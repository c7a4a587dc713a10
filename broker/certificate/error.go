package certificate

import (
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// The codes of refusals, in addition to the codes of envelopes and trust bundles: too_large,
// malformed, not_canonical, wrong_payload_type, unknown_key, bad_signature, key_not_in_force.
const (
	CodeWrongStatement      taskcatalog.Code = "wrong_statement"      // signed by the right key as something else
	CodeIssuedLater         taskcatalog.Code = "issued_in_the_future" // later than now, past the clock skew
	CodeIncomplete          taskcatalog.Code = "certificate_incomplete"
	CodeEvidenceWrongNode   taskcatalog.Code = "evidence_wrong_node"
	CodeEvidenceWrongEpoch  taskcatalog.Code = "evidence_wrong_epoch"
	CodeEvidenceWrongKey    taskcatalog.Code = "evidence_wrong_key"    // not signed with the enclosed node certificate
	CodeEvidenceKeyTooOld   taskcatalog.Code = "evidence_key_too_old"  // certified before the identity was rotated
	CodeEvidenceWrongTask   taskcatalog.Code = "evidence_wrong_task"   // of another task, or another digest
	CodeEvidenceWrongResult taskcatalog.Code = "evidence_wrong_result" // the result is not the signed result
	CodeEvidenceStale       taskcatalog.Code = "evidence_stale"        // from before this turnover
	CodeEvidenceLate        taskcatalog.Code = "evidence_late"         // from after this turnover
	CodeDeviceContradicted  taskcatalog.Code = "device_contradicted"   // better than the evidence, or different
	CodeAttestationWrong    taskcatalog.Code = "attestation_wrong"     // of another node or device, or missing
	CodeFindingHidden       taskcatalog.Code = "finding_hidden"        // in the evidence and not in the certificate
	CodeVerdictUnfounded    taskcatalog.Code = "verdict_unfounded"     // not the verdict that the content gives
)

// The codes of remarks: the certificate is authentic, and a reader must know this.
const (
	CodeStale             taskcatalog.Code = "certificate_stale"
	CodeNoDevices         taskcatalog.Code = "no_devices"
	CodeDeviceMissing     taskcatalog.Code = "device_missing"
	CodeDeviceUnexpected  taskcatalog.Code = "device_unexpected"
	CodeDeviceNotClean    taskcatalog.Code = "device_not_clean"
	CodeDeviceUnproven    taskcatalog.Code = "device_unproven"
	CodeBelowPolicy       taskcatalog.Code = "method_below_policy"
	CodeUnverified        taskcatalog.Code = "method_unverified"
	CodeResetUnproven     taskcatalog.Code = "reset_unproven"
	CodeDowngrade         taskcatalog.Code = "downgrade_not_accepted"
	CodeEnvironment       taskcatalog.Code = "environment_below_policy"
	CodeRootNeedsFreshOS  taskcatalog.Code = "root_requires_fresh_os"
	CodeNotValidated      taskcatalog.Code = "not_validated"
	CodeCheckNotMade      taskcatalog.Code = "check_not_made"
	CodeFinding           taskcatalog.Code = "finding"
	CodeValidationSkipped taskcatalog.Code = "validation_overridden"
)

func refuse(code taskcatalog.Code, format string, args ...any) error {
	return taskcatalog.Errorf(code, format, args...)
}

// malformed refuses a signed payload that is no certificate.
func malformed(format string, args ...any) error {
	return refuse(pki.CodeMalformed, "cannot read certificate: "+format, args...)
}
