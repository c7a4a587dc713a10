package taskcatalog

import "time"

var allocationProvisionUser = define[ProvisionUserParams, ProvisionUserResult](Type{
	Name: "allocation.provision_user", Version: 1,
	Summary: "create the account of an allocation, with its SSH keys",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 2 * time.Minute,
	Example: `{"allocation_id":"a-1","username":"alice","ssh_keys":["ssh-ed25519 AAAA… alice"]}`,
})

// ProvisionUserParams describes the account. The node chooses a uid that no account has had before.
type ProvisionUserParams struct {
	AllocationID string   `json:"allocation_id" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	Username     string   `json:"username" jsonschema:"pattern=^[a-z_][a-z0-9_-]{0\\,30}$"`
	SSHKeys      []string `json:"ssh_keys" jsonschema:"minItems=1,maxItems=64"`
	Sudo         bool     `json:"sudo,omitempty"` // root for the tenant: the next turnover requires a fresh OS
	Groups       []string `json:"groups,omitempty" jsonschema:"maxItems=16"`
	// Tenant names the owner of the allocation in refusals and receipts of the broker. The node
	// ignores Tenant.
	Tenant string `json:"tenant,omitempty" jsonschema:"maxLength=100"`
}

// ProvisionUserResult describes the account after the task.
type ProvisionUserResult struct {
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Home    string `json:"home"`
	Created bool   `json:"created"` // false: the account already existed as requested
}
