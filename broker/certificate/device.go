package certificate

import (
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// Device is one part of the machine: what was expected, what was there, what was
// done to it and how far that went.
type Device struct {
	Kind   string `json:"kind"` // gpu, disk, nic
	Serial string `json:"serial,omitempty"`
	UUID   string `json:"uuid,omitempty"`
	Parent string `json:"parent,omitempty"` // the GPU's uuid, of an instance
	Model  string `json:"model,omitempty"`

	Expected bool `json:"expected"` // it is in the node's baseline
	Found    bool `json:"found"`

	Method       Method      `json:"method"`
	Verification string      `json:"verification"`    // verified, unverified, none
	Reset        string      `json:"reset,omitempty"` // of a GPU: proven, unproven, refused, unsupported, not_tried
	CoveredBytes *uint64     `json:"covered_bytes,omitzero"`
	OfBytes      *uint64     `json:"of_bytes,omitzero"` // all but what the driver reserves
	Exclusions   []Exclusion `json:"exclusions"`

	// Verdict of a disk is whether the method ran to its end; what that is worth is
	// the method's grade.
	Verdict taskcatalog.Verdict `json:"verdict"`
	Code    taskcatalog.Code    `json:"code,omitempty"`
	Message string              `json:"message,omitempty"`
	TaskID  string              `json:"task_id,omitempty"` // whose proof says so
	// Attestation is the digest of a person's statement about a part that is not
	// there to be looked at.
	Attestation string `json:"attestation,omitempty"`
}

// The kinds of devices. A NIC holds nothing of a tenant: it must be there, no more.
const (
	KindGPU  = "gpu"
	KindDisk = "disk"
	KindNIC  = "nic"
)

// Exclusion is what was left out of a device.
type Exclusion struct {
	Reason string `json:"reason"`
	Bytes  uint64 `json:"bytes"`
}

// Name is the serial of a device, or the uuid of one that has none.
func (d *Device) Name() string {
	if d.Serial != "" {
		return d.Serial
	}
	return d.UUID
}

// Method is what was done, never what was asked for.
type Method string

// The methods.
const (
	MethodNone              Method = "none"
	MethodOverwrite         Method = "overwrite"
	MethodFileDeletion      Method = "file_deletion"
	MethodTrim              Method = "trim"
	MethodMkfs              Method = "mkfs"
	MethodMAASQuickErase    Method = "maas_quick_erase"
	MethodATASecureErase    Method = "ata_secure_erase"
	MethodATAEnhancedErase  Method = "ata_enhanced_secure_erase"
	MethodNVMeFormatErase   Method = "nvme_format_user_data_erase"
	MethodNVMeFormatCrypto  Method = "nvme_format_crypto_erase"
	MethodNVMeSanitizeBlock Method = "nvme_sanitize_block_erase"
	MethodNVMeSanitizeCrypt Method = "nvme_sanitize_crypto_erase"
	MethodNVMeSanitizeWrite Method = "nvme_sanitize_overwrite"
	MethodRemoved           Method = "removed"   // a person's word
	MethodDestroyed         Method = "destroyed" // a person's word
)

// Grade is what a method is worth, in the words of NIST SP 800-88: clear keeps
// data from whoever uses the device as a device, purge from a laboratory.
type Grade string

// The grades, from the least to the most.
const (
	GradeNone    Grade = "none"
	GradeClear   Grade = "clear"
	GradePurge   Grade = "purge"
	GradeDestroy Grade = "destroy"
)

var grades = []Grade{GradeNone, GradeClear, GradePurge, GradeDestroy}

// worth is the table of methods. What leaves blocks behind that can be read again
// has no grade: deletion, trim, a new file system, MAAS's quick erase.
var worth = map[Method]Grade{
	MethodNone:              GradeNone,
	MethodFileDeletion:      GradeNone,
	MethodTrim:              GradeNone,
	MethodMkfs:              GradeNone,
	MethodMAASQuickErase:    GradeNone,
	MethodOverwrite:         GradeClear,
	MethodATASecureErase:    GradeClear,
	MethodNVMeFormatErase:   GradeClear,
	MethodATAEnhancedErase:  GradePurge,
	MethodNVMeFormatCrypto:  GradePurge,
	MethodNVMeSanitizeBlock: GradePurge,
	MethodNVMeSanitizeCrypt: GradePurge,
	MethodNVMeSanitizeWrite: GradePurge,
	MethodRemoved:           GradeNone,
	MethodDestroyed:         GradeDestroy,
}

// Grade returns what the method is worth; none where it is not known.
func (m Method) Grade() Grade {
	if g, ok := worth[m]; ok {
		return g
	}
	return GradeNone
}

func (g Grade) below(least Grade) bool { return slices.Index(grades, g) < slices.Index(grades, least) }
