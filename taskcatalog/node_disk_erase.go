package taskcatalog

import (
	"strings"
	"time"
)

var nodeDiskErase = define[DiskEraseParams, DiskEraseResult](Type{
	Name: "node.disk_erase", Version: 1,
	Summary: "erase the named local disks whole, by the best method that each has, and say of each what was done to it",
	Class:   ClassDestructive, Lane: LaneExclusive, Deadline: 7 * 24 * time.Hour,
	Example: `{"mode":"secure","disks":[{"serial":"S6ABNE0T100001","model":"SAMSUNG MZQL23T8HCLS-00A07","size_bytes":3840755982336}]}`,
	limit:   func(params any) time.Duration { return params.(*DiskEraseParams).limit() },
})

// What an erase may take: so long in any case, and for the disks that are erased one
// after the other a second for each so many bytes, which a slow hard disk writes once
// and reads once in that time.
const (
	eraseBase = 24 * time.Hour
	eraseRate = 50_000_000
)

// limit is of the longest row of disks: the namespaces of a controller share its
// serial, and those that are named without one may be anybody's.
func (p *DiskEraseParams) limit() time.Duration {
	const most = 1 << 50 // bytes of a disk that count
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
	EraseQuick  = "quick"  // discard: says nothing about what can be read again
	EraseSecure = "secure" // by the best method that the disk has
)

// DiskEraseParams names the disks. What is given of one must all be as the
// machine has it, or no disk is touched.
type DiskEraseParams struct {
	Disks        []DiskName `json:"disks" jsonschema:"minItems=1,maxItems=128"`
	Mode         string     `json:"mode" jsonschema:"enum=quick,enum=secure"`
	AllocationID string     `json:"allocation_id,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	// DPUEmulatedOK says that disks of this machine may be ones that a DPU shows
	// it: what is erased then is what lies behind the DPU, as far as that goes.
	DPUEmulatedOK bool `json:"dpu_emulated_ok,omitempty"`
}

// DiskName tells one disk from every other. At least one of serial, WWN and NGUID
// is given. WWN and NGUID may have their prefix (eui., naa.) and dashes or not.
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

// ErasedDisk is what was done to one disk.
type ErasedDisk struct {
	Name      string `json:"name,omitempty"` // nvme0n1, in this boot
	Serial    string `json:"serial,omitempty"`
	WWN       string `json:"wwn,omitempty"`
	NGUID     string `json:"nguid,omitempty"`
	Model     string `json:"model,omitempty"`
	SizeBytes int64  `json:"size_bytes"`
	// Asked is the best method that the disk says it has; Method is the one that
	// ran to its end, none where none did.
	Asked  EraseMethod `json:"asked"`
	Method EraseMethod `json:"method"`
	// Verification is verified where the content was read after the erase: whole
	// after an overwrite, at the places that were planted before any other method.
	Verification  string `json:"verification" jsonschema:"enum=verified,enum=unverified,enum=none"`
	CoveredBytes  uint64 `json:"covered_bytes"`
	OfBytes       uint64 `json:"of_bytes"`
	ReadBackBytes uint64 `json:"read_back_bytes,omitempty"`
	// Verdict is whether the method ran to its end; what that is worth is the
	// method's grade.
	Verdict  Verdict        `json:"verdict"`
	Code     Code           `json:"code,omitempty"`
	Message  string         `json:"message,omitempty"`
	Attempts []EraseAttempt `json:"attempts,omitempty" jsonschema:"maxItems=16"`
}

// EraseAttempt is a method that was tried and is not the one that was done, and
// why not.
type EraseAttempt struct {
	Method  EraseMethod `json:"method"`
	Code    Code        `json:"code"`
	Message string      `json:"message,omitempty"`
}

// Downgraded reports whether less was done than the disk could, and why.
func (d *ErasedDisk) Downgraded() (reason string, yes bool) {
	if !d.Method.Weaker(d.Asked) {
		return "", false
	}
	if len(d.Attempts) > 0 {
		return d.Attempts[0].Message, true
	}
	return d.Message, true
}

// Why no disk of a task is touched.
const (
	CodeDiskNotFound         Code = "disk_not_found"
	CodeDiskDiffers          Code = "disk_differs" // some of what names it is another's
	CodeDiskAmbiguous        Code = "disk_ambiguous"
	CodeDiskListedTwice      Code = "disk_listed_twice"
	CodeDiskNotLocal         Code = "disk_not_local"
	CodeDiskDPUEmulated      Code = "disk_dpu_emulated"
	CodeDiskReadOnly         Code = "disk_read_only"
	CodeDiskNoSize           Code = "disk_no_size" // nobody can read or write it as it is formatted
	CodeDiskBacksSystem      Code = "disk_backs_system"
	CodeDiskMounted          Code = "disk_mounted"
	CodeDiskSwap             Code = "disk_swap"
	CodeDiskMultipath        Code = "disk_multipath"
	CodeDiskArrayMember      Code = "disk_array_member"
	CodeDiskHeld             Code = "disk_held"   // device-mapper, LVM, dm-crypt, bcache
	CodeDiskInUse            Code = "disk_in_use" // the kernel says so, and not what by
	CodeDiskControllerShared Code = "disk_controller_shared"
	CodeDiskUnreadable       Code = "disk_unreadable" // what must be known of it cannot be read
)

// Where a node tells otherwise of a disk than the record of when it was let in: its word
// exempts no disk from an erase.
const (
	CodeDiskNotSystem        Code = "disk_not_system"        // it says system, and the record does not
	CodeDiskRoleUnrecorded   Code = "disk_role_unrecorded"   // it says system, and there is no record
	CodeDiskTransportDiffers Code = "disk_transport_differs" // it says network, and the record does not, or there is none
	CodeDiskSmaller          Code = "disk_smaller"           // than it was
)

// Why a disk of a task is not erased, or not by the method that was asked for.
const (
	CodeDiskNotErased   Code = "disk_not_erased" // of the task: at least one of its disks
	CodeDiskChanged     Code = "disk_changed"    // between the check and the erase
	CodeEraseUnfit      Code = "disk_erase_unsupported"
	CodeEraseRefused    Code = "erase_refused"
	CodeEraseFailed     Code = "erase_failed"
	CodeEraseUnfinished Code = "erase_unfinished" // it may go on inside the drive
	CodeEraseResidue    Code = "erase_residue"    // what was planted before is still there
	CodeEraseUnverified Code = "erase_unverified"
	CodeATAFrozen       Code = "ata_frozen"
	CodeATAPassword     Code = "ata_password_set"
	CodeDiskWrite       Code = "disk_write_failed"
	CodeDiskRead        Code = "disk_read_failed"
)
