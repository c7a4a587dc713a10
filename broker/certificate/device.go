package certificate

import "github.com/hostler/hostler/taskcatalog"

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
type Method = taskcatalog.EraseMethod

// The methods: the list is the one that erase tasks are written in.
const (
	MethodNone              = taskcatalog.MethodNone
	MethodOverwrite         = taskcatalog.MethodOverwrite
	MethodFileDeletion      = taskcatalog.MethodFileDeletion
	MethodTrim              = taskcatalog.MethodTrim
	MethodMkfs              = taskcatalog.MethodMkfs
	MethodMAASQuickErase    = taskcatalog.MethodMAASQuickErase
	MethodMAASSecureErase   = taskcatalog.MethodMAASSecureErase
	MethodATASecureErase    = taskcatalog.MethodATASecureErase
	MethodATAEnhancedErase  = taskcatalog.MethodATAEnhancedErase
	MethodNVMeFormatErase   = taskcatalog.MethodNVMeFormatErase
	MethodNVMeFormatCrypto  = taskcatalog.MethodNVMeFormatCrypto
	MethodNVMeSanitizeBlock = taskcatalog.MethodNVMeSanitizeBlock
	MethodNVMeSanitizeCrypt = taskcatalog.MethodNVMeSanitizeCrypt
	MethodNVMeSanitizeWrite = taskcatalog.MethodNVMeSanitizeWrite
	MethodRemoved           = taskcatalog.MethodRemoved
	MethodDestroyed         = taskcatalog.MethodDestroyed
)

// Grade is what a method is worth.
type Grade = taskcatalog.EraseGrade

// The grades, from the least to the most.
const (
	GradeNone    = taskcatalog.GradeNone
	GradeClear   = taskcatalog.GradeClear
	GradePurge   = taskcatalog.GradePurge
	GradeDestroy = taskcatalog.GradeDestroy
)
