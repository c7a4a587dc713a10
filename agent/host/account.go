package host

import "time"

// FirstUID and LastUID bound the uids of allocation users: above the uids of login tools and of
// 16-bit file systems, below the first subordinate uid. Each uid is given once, in order. No
// account of the system or of a site has a uid of this range.
const (
	FirstUID = 70_000
	LastUID  = 99_999
)

// TenantUID reports whether the uid is of the range for allocation users.
func TenantUID(uid uint32) bool { return uid >= FirstUID && uid <= LastUID }

// Account is the user account of an allocation.
type Account struct {
	AllocationID string    `json:"allocation_id"`
	Username     string    `json:"username"`
	UID          uint32    `json:"uid"`
	GID          uint32    `json:"gid"`
	Home         string    `json:"home"`
	Sudo         bool      `json:"sudo,omitempty"`
	CreatedAt    time.Time `json:"created_at"`
}

// SudoersFile returns the path of the sudoers file that lets the user become root.
func SudoersFile(username string) string { return "/etc/sudoers.d/hostler-" + username }

// Accounts is the agent's crash-safe record of its allocation users. An account is recorded before
// the system has the user, and deleted from the record after the user is removed from the system.
type Accounts interface {
	// NextUID returns a uid that no account of this node has had, across restarts and crashes.
	NextUID() (uint32, error)
	Put(Account) error
	ByAllocation(id string) (Account, bool, error)
	List() ([]Account, error)
	Delete(allocationID string) error
}
