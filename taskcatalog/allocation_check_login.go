package taskcatalog

import "time"

var allocationCheckLogin = define[CheckLoginParams, CheckLoginResult](Type{
	Name: "allocation.check_login", Version: 1,
	Summary: "prove that the user of an allocation can log in over SSH; changes nothing",
	Class:   ClassProbe, Lane: LaneConcurrent, Deadline: time.Minute,
	Example: `{"allocation_id":"a-1","username":"alice","ssh_keys":["ssh-ed25519 AAAA… alice"]}`,
})

// CheckLoginParams describes the account as it was provisioned.
type CheckLoginParams struct {
	AllocationID string   `json:"allocation_id" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,63}$"`
	Username     string   `json:"username" jsonschema:"pattern=^[a-z_][a-z0-9_-]{0\\,30}$"`
	SSHKeys      []string `json:"ssh_keys" jsonschema:"minItems=1,maxItems=64"`
	// Address is where MAAS has the node. If it is not an address of the node, or empty, the node chooses
	// one of its own.
	Address string `json:"address,omitempty" jsonschema:"maxLength=45"`
}

// CodeKeysRefused is the failure of a check whose server accepts none of the keys. The result has them.
const CodeKeysRefused Code = "keys_refused"

// CheckLoginResult says where the node's SSH server accepts the keys.
type CheckLoginResult struct {
	Address string `json:"address"`
	// KeyTypes are the types of the keys that the server accepts.
	KeyTypes []string `json:"key_types"`
	// RefusedKeys are the fingerprints of the keys that the server does not accept, such as those of a type
	// that it does not permit.
	RefusedKeys []string `json:"refused_keys,omitempty"`
	// HostKey is the key that the server proved to have, as a line without a host name.
	HostKey string `json:"host_key"`
}
