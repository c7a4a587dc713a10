package taskcatalog

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Baseline describes a node before any tenant. A baseline is taken once after enrolment, stored by
// the broker under its digest, and sent back inside the signed task. A baseline holds only state
// that survives reboots and the system's own housekeeping.
//
// Digests of files are the first 16 bytes of SHA-256 in hex. Passing a file off as another one
// still needs a second preimage, and the short form keeps the baseline small enough for a task.
type Baseline struct {
	TakenAt   time.Time      `json:"taken_at"`
	Users     []BaselineUser `json:"users"`
	Groups    []string       `json:"groups"`    // name:gid:members
	Units     []BaselineFile `json:"units"`     // unit files, drop-ins, enablement links
	Listeners []string       `json:"listeners"` // tcp/22
	Processes []string       `json:"processes"` // executables of processes
	// Files are the watched files that no package vouches for: new, changed or missing files of
	// packages, and all files outside packages. A path that ends in /* stands for the files in a
	// directory, a path that ends in /** for a whole tree.
	Files    []BaselineFile `json:"files"`
	Packages []BaselineFile `json:"packages"` // name, digest of dpkg's record of its files
	Modules  []string       `json:"modules"`
	Mounts   []string       `json:"mounts"`             // mount point, type, root within the file system; restrictions
	Firewall string         `json:"firewall,omitempty"` // digest; empty: no rules
	BPF      []string       `json:"bpf,omitempty"`      // type/name/tag
	// Objects are the remaining kinds, as kind/name: ipc, shm, mqueue, linger, container, image,
	// volume, dump, swap, hugepages, loop, dm, md, nbd, zram, netns, temporary, scratch, home,
	// kernel.
	Objects   []string  `json:"objects,omitempty"`
	Inventory Inventory `json:"inventory"`
	// GPUs are the GPUs as the vendors' libraries reported them, with the settings to be restored.
	GPUs []BaselineGPU `json:"gpus,omitempty"`
	// Platform describes the state below the operating system, by rows of the table of checks. A
	// baseline of an older agent has no Platform; the platform rows then stay inconclusive.
	Platform []PlatformRow `json:"platform,omitempty"`
	// NotTaken are the rows of the table of checks that could not be read when the baseline was
	// taken. These rows stay inconclusive.
	NotTaken []string `json:"not_taken,omitempty"`
}

// BaselineUser is an account.
type BaselineUser struct {
	Name  string `json:"name"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Home  string `json:"home"`
	Shell string `json:"shell"`
	// Login is the state of the password: locked, none (anyone logs in), or a digest of the salted
	// hash.
	Login string `json:"login,omitempty"`
}

// BaselineFile is a file by digest, with mode and owner.
type BaselineFile struct {
	Path string `json:"path"`
	// Digest is the digest of the content. For a symbolic link it is link:TARGET, for an absent
	// file of a package it is missing, and for any other object it is the kind of the object.
	Digest string `json:"digest,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
	UID    uint32 `json:"uid,omitempty"`
}

// Inventory is the hardware. A device that is in the inventory and not found is a finding.
type Inventory struct {
	GPUs  []string `json:"gpus,omitempty"`  // PCI address with ids; uuids
	Disks []string `json:"disks,omitempty"` // serials or WWNs; sizes of disks without either
	NICs  []string `json:"nics,omitempty"`  // permanent MAC addresses
}

// Digest returns the name of the baseline: sha256:… of the JSON that Encode writes.
func (b *Baseline) Digest() (string, error) {
	raw, err := Encode(b)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
