package taskcatalog

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Baseline is a node as it was before any tenant: taken once after enrolment,
// kept at the broker by digest, and sent back inside the signed task. It holds
// only what stays as it is over reboots and the system's own housekeeping.
//
// Digests of files are the first 16 bytes of SHA-256 in hex: whoever wants to
// pass a file for another needs a second preimage, and the whole must fit into
// a task.
type Baseline struct {
	TakenAt   time.Time      `json:"taken_at"`
	Users     []BaselineUser `json:"users"`
	Groups    []string       `json:"groups"`    // name:gid:members
	Units     []BaselineFile `json:"units"`     // unit files, drop-ins, enablement links
	Listeners []string       `json:"listeners"` // tcp/22
	Processes []string       `json:"processes"` // executables of processes
	// Files are watched files that no package vouches for: new, changed or
	// missing ones of packages, and all others. A path that ends in /* stands
	// for the files in a directory, one in /** for a whole tree.
	Files    []BaselineFile `json:"files"`
	Packages []BaselineFile `json:"packages"` // name, digest of dpkg's record of its files
	Modules  []string       `json:"modules"`
	Mounts   []string       `json:"mounts"`             // mount point, type, root within the file system; restrictions
	Firewall string         `json:"firewall,omitempty"` // digest; empty: no rules
	BPF      []string       `json:"bpf,omitempty"`      // type/name/tag
	// Objects are the rest, as kind/name: ipc, shm, mqueue, linger, container,
	// image, volume, dump, swap, hugepages, loop, dm, md, nbd, zram, netns,
	// temporary, scratch, home, kernel.
	Objects   []string  `json:"objects,omitempty"`
	Inventory Inventory `json:"inventory"`
	// GPUs are as the vendors' libraries saw them, with the settings that are
	// wanted again.
	GPUs []BaselineGPU `json:"gpus,omitempty"`
	// Platform is what lies below the operating system, by rows of the table of
	// checks. A baseline of an older agent has none: those rows stay inconclusive.
	Platform []PlatformRow `json:"platform,omitempty"`
	// NotTaken are the rows of the table of checks that could not be read when
	// the baseline was taken: they stay inconclusive.
	NotTaken []string `json:"not_taken,omitempty"`
}

// BaselineUser is an account.
type BaselineUser struct {
	Name  string `json:"name"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Home  string `json:"home"`
	Shell string `json:"shell"`
	// Login says how its password stands: locked, none (anyone logs in), or a
	// digest of the salted hash.
	Login string `json:"login,omitempty"`
}

// BaselineFile is a file by digest, with mode and owner.
type BaselineFile struct {
	Path string `json:"path"`
	// Digest is of the content; link:TARGET of a symbolic link; missing of a
	// packaged file that is not there; otherwise the kind of what is there.
	Digest string `json:"digest,omitempty"`
	Mode   uint32 `json:"mode,omitempty"`
	UID    uint32 `json:"uid,omitempty"`
}

// Inventory is the hardware: a device expected and not seen is a finding.
type Inventory struct {
	GPUs  []string `json:"gpus,omitempty"`  // PCI address with ids; uuids
	Disks []string `json:"disks,omitempty"` // serials or wwns; sizes of those that have none
	NICs  []string `json:"nics,omitempty"`  // permanent MAC addresses
}

// Digest names the baseline: sha256:… of its JSON as Encode writes it.
func (b *Baseline) Digest() (string, error) {
	raw, err := Encode(b)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
