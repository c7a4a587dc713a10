package taskcatalog

import (
	"strings"
	"time"
)

var nodeDiskErase = define[DiskEraseParams, DiskEraseResult](Type{
	Name: "node.disk_erase", Version: 1,
	Summary: "erase the named local disks completely, each by the best method that it supports, and report what was done to each",
	Class:   ClassDestructive, Lane: LaneExclusive, Deadline: 7 * 24 * time.Hour,
	Example: `{"mode":"secure","disks":[{"serial":"S6ABNE0T100001","model":"SAMSUNG MZQL23T8HCLS-00A07","size_bytes":3840755982336}]}`,
	limit:   func(params any) time.Duration { return params.(*DiskEraseParams).limit() },
})

// Time limits of an erase: eraseBase in any case, plus one second per eraseRate bytes of the disks
// that are erased one after the other. A slow hard disk writes and reads eraseRate bytes once in a
// second.
const (
	eraseBase = 24 * time.Hour
	eraseRate = 50_000_000
)

// limit is computed from the longest row of disks that are erased one after the other. The
// namespaces of a controller share its serial, and disks without a serial may belong to any
// controller.
func (p *DiskEraseParams) limit() time.Duration {
	const most = 1 << 50 // greatest counted size of a disk, in bytes
	rows := map[string]int64{}
	longest := int64(0)
	for _, d := range p.Disks {
		row := strings.Join(strings.Fields(d.Serial), " ")
		rows[row] += min(d.SizeBytes, most)
		longest = max(longest, rows[row])
	}
	return eraseBase + time.Duration(longest/eraseRate)*time.Second
}

// The modes of an erase.
const (
	EraseQuick  = "quick"  // discard: gives no assurance about readable remains
	EraseSecure = "secure" // by the best method of the disk
)

// DiskEraseParams names the disks. All given properties of a disk must match the machine; otherwise
// the task touches no disk.
type DiskEraseParams struct {
	Disks        []DiskName `json:"disks" jsonschema:"minItems=1,maxItems=128"`
	Mode         string     `json:"mode" jsonschema:"enum=quick,enum=secure"`
	AllocationID string     `json:"allocation_id,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	// DPUEmulatedOK permits disks that a DPU may emulate. The task then erases the storage behind
	// the DPU, as far as the DPU passes the erase on.
	DPUEmulatedOK bool `json:"dpu_emulated_ok,omitempty"`
}

// DiskName identifies one disk. At least one of serial, WWN and NGUID is given. WWN and NGUID may
// have a prefix (eui., naa.) and dashes.
type DiskName struct {
	Serial    string `json:"serial,omitempty" jsonschema:"maxLength=128"`
	WWN       string `json:"wwn,omitempty" jsonschema:"maxLength=128"`
	NGUID     string `json:"nguid,omitempty" jsonschema:"pattern=^[0-9A-Fa-f-]{32\\,36}$"`
	Model     string `json:"model" jsonschema:"minLength=1,maxLength=128"`
	SizeBytes int64  `json:"size_bytes" jsonschema:"minimum=1"`
}

// DiskEraseResult has a row for each disk of the params, in their order.
type DiskEraseResult struct {
	Disks []ErasedDisk `json:"disks"`
}

// ErasedDisk reports the erase of one disk.
type ErasedDisk struct {
	Name      string `json:"name,omitempty"` // nvme0n1, in this boot
	Serial    string `json:"serial,omitempty"`
	WWN       string `json:"wwn,omitempty"`
	NGUID     string `json:"nguid,omitempty"`
	Model     string `json:"model,omitempty"`
	SizeBytes int64  `json:"size_bytes"`
	// Asked is the best method that the disk offers. Method is the completed method, or none.
	Asked  EraseMethod `json:"asked"`
	Method EraseMethod `json:"method"`
	// Verification is verified if the content was read after the erase: the whole disk after an
	// overwrite, the places of planted patterns after any other method.
	Verification  string `json:"verification" jsonschema:"enum=verified,enum=unverified,enum=none"`
	CoveredBytes  uint64 `json:"covered_bytes"`
	OfBytes       uint64 `json:"of_bytes"`
	ReadBackBytes uint64 `json:"read_back_bytes,omitempty"`
	// Verdict says whether the method ran to its end. The method's grade says what the method is
	// worth.
	Verdict  Verdict        `json:"verdict"`
	Code     Code           `json:"code,omitempty"`
	Message  string         `json:"message,omitempty"`
	Attempts []EraseAttempt `json:"attempts,omitempty" jsonschema:"maxItems=16"`
}

// EraseAttempt is a method that was tried and not completed, with the reason.
type EraseAttempt struct {
	Method  EraseMethod `json:"method"`
	Code    Code        `json:"code"`
	Message string      `json:"message,omitempty"`
}

// Downgraded reports whether a weaker method was used than the disk offers, and why.
func (d *ErasedDisk) Downgraded() (reason string, yes bool) {
	if !d.Method.Weaker(d.Asked) {
		return "", false
	}
	if len(d.Attempts) > 0 {
		return d.Attempts[0].Message, true
	}
	return d.Message, true
}

// Reasons why a task touches no disk.
const (
	CodeDiskNotFound         Code = "disk_not_found"
	CodeDiskDiffers          Code = "disk_differs" // some of the given properties belong to another disk
	CodeDiskAmbiguous        Code = "disk_ambiguous"
	CodeDiskListedTwice      Code = "disk_listed_twice"
	CodeDiskNotLocal         Code = "disk_not_local"
	CodeDiskDPUEmulated      Code = "disk_dpu_emulated"
	CodeDiskReadOnly         Code = "disk_read_only"
	CodeDiskNoSize           Code = "disk_no_size" // unreadable and unwritable in the current format
	CodeDiskBacksSystem      Code = "disk_backs_system"
	CodeDiskMounted          Code = "disk_mounted"
	CodeDiskSwap             Code = "disk_swap"
	CodeDiskMultipath        Code = "disk_multipath"
	CodeDiskArrayMember      Code = "disk_array_member"
	CodeDiskHeld             Code = "disk_held"   // device-mapper, LVM, dm-crypt, bcache
	CodeDiskInUse            Code = "disk_in_use" // the kernel reports a user of the disk without naming it
	CodeDiskControllerShared Code = "disk_controller_shared"
	CodeDiskUnreadable       Code = "disk_unreadable" // required properties of the disk cannot be read
)

// Contradictions between a node's report on a disk and the record made when the node was admitted.
// A node's report alone exempts no disk from an erase.
const (
	CodeDiskNotSystem        Code = "disk_not_system"        // reported as system, recorded as not system
	CodeDiskRoleUnrecorded   Code = "disk_role_unrecorded"   // reported as system, and no record exists
	CodeDiskTransportDiffers Code = "disk_transport_differs" // reported as network; the record differs or is missing
	CodeDiskSmaller          Code = "disk_smaller"           // smaller than recorded
)

// Reasons why a disk of a task is not erased, or not by the requested method.
const (
	CodeDiskNotErased   Code = "disk_not_erased" // result of the task: at least one disk is not erased
	CodeDiskChanged     Code = "disk_changed"    // between the check and the erase
	CodeEraseUnfit      Code = "disk_erase_unsupported"
	CodeEraseRefused    Code = "erase_refused"
	CodeEraseFailed     Code = "erase_failed"
	CodeEraseUnfinished Code = "erase_unfinished" // the erase may continue inside the drive
	CodeEraseResidue    Code = "erase_residue"    // patterns planted before the erase are still readable
	CodeEraseUnverified Code = "erase_unverified"
	CodeATAFrozen       Code = "ata_frozen"
	CodeATAPassword     Code = "ata_password_set"
	CodeDiskWrite       Code = "disk_write_failed"
	CodeDiskRead        Code = "disk_read_failed"
)
