package taskcatalog

import "time"

// Baseline is a node as it was before any tenant: taken once after enrolment,
// kept at the broker by digest, and sent back inside the signed task.
type Baseline struct {
	TakenAt   time.Time      `json:"taken_at"`
	Users     []BaselineUser `json:"users"`
	Groups    []string       `json:"groups"`    // name:gid:members
	Units     []BaselineFile `json:"units"`     // unit files and drop-ins, enablement links
	Listeners []string       `json:"listeners"` // tcp/22
	Processes []string       `json:"processes"` // executables of long-running processes
	Files     []BaselineFile `json:"files"`     // watched files outside packages
	Packages  []BaselineFile `json:"packages"`  // name, digest of its file list
	Modules   []string       `json:"modules"`
	Mounts    []string       `json:"mounts"`
	Firewall  string         `json:"firewall,omitempty"` // digest
	BPF       []string       `json:"bpf,omitempty"`      // tag and type
	Objects   []string       `json:"objects,omitempty"`  // containers, images, volumes, block devices, namespaces: kind/name
	Inventory Inventory      `json:"inventory"`
}

// BaselineUser is an account.
type BaselineUser struct {
	Name  string `json:"name"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Home  string `json:"home"`
	Shell string `json:"shell"`
}

// BaselineFile is a file by digest, with mode and owner.
type BaselineFile struct {
	Path   string `json:"path"`
	Digest string `json:"digest,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
	UID    uint32 `json:"uid,omitempty"`
}

// Inventory is the hardware: a device expected and not seen is a finding.
type Inventory struct {
	GPUs  []string `json:"gpus,omitempty"`  // uuids
	Disks []string `json:"disks,omitempty"` // serials or wwns
	NICs  []string `json:"nics,omitempty"`  // MAC addresses
}
