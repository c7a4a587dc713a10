package certificate

import "github.com/hostler/hostler/taskcatalog"

// Device is one part of the machine: whether it was expected and found, the treatment, and its
// coverage.
type Device struct {
	Kind   string `json:"kind"` // gpu, disk, nic
	Serial string `json:"serial,omitempty"`
	UUID   string `json:"uuid,omitempty"`
	Parent string `json:"parent,omitempty"` // the GPU's uuid, of an instance
	Model  string `json:"model,omitempty"`

	Expected bool `json:"expected"` // listed in the node's baseline
	Found    bool `json:"found"`

	Method       Method      `json:"method"`
	Verification string      `json:"verification"`    // verified, unverified, none
	Reset        string      `json:"reset,omitempty"` // of a GPU: proven, unproven, refused, unsupported, not_tried
	CoveredBytes *uint64     `json:"covered_bytes,omitzero"`
	OfBytes      *uint64     `json:"of_bytes,omitzero"` // all but the driver's reserve
	Exclusions   []Exclusion `json:"exclusions"`

	// Verdict of a disk is whether the method ran to its end. The grade of the method tells how
	// thorough the method is.
	Verdict taskcatalog.Verdict `json:"verdict"`
	Code    taskcatalog.Code    `json:"code,omitempty"`
	Message string              `json:"message,omitempty"`
	TaskID  string              `json:"task_id,omitempty"` // the task whose proof supports the row
	// Attestation is the digest of a person's statement about a part that cannot be inspected any
	// more.
	Attestation string `json:"attestation,omitempty"`
}

// The kinds of devices. A NIC holds no tenant data: only its presence is checked.
const (
	KindGPU  = "gpu"
	KindDisk = "disk"
	KindNIC  = "nic"
)

// Exclusion is capacity of a device that was left out.
type Exclusion struct {
	Reason string `json:"reason"`
	Bytes  uint64 `json:"bytes"`
}

// Name is the serial of a device, or the uuid of a device without a serial.
func (d *Device) Name() string {
	if d.Serial != "" {
		return d.Serial
	}
	return d.UUID
}

// Method is the method applied, never the method requested.
type Method = taskcatalog.EraseMethod

// The methods, from the list of the erase tasks.
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

// Grade is how thorough a method is.
type Grade = taskcatalog.EraseGrade

// The grades, from the lowest to the highest.
const (
	GradeNone    = taskcatalog.GradeNone
	GradeClear   = taskcatalog.GradeClear
	GradePurge   = taskcatalog.GradePurge
	GradeDestroy = taskcatalog.GradeDestroy
)
