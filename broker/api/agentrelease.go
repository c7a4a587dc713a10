package api

import "time"

// AgentRelease is a package of the agent, or a signed release of the agent.
type AgentRelease struct {
	Kind       string    `json:"kind" doc:"package: a .deb that a machine's first boot installs; signed: a release to which nodes update themselves"`
	Digest     string    `json:"digest" doc:"sha256:HEX of the package, or of the release's manifest"`
	Version    string    `json:"version"`
	Arch       string    `json:"arch"`
	Filename   string    `json:"filename,omitempty" doc:"file name of a package"`
	Size       int64     `json:"size" doc:"size in bytes"`
	UploadedAt time.Time `json:"uploaded_at"`
	UploadedBy string    `json:"uploaded_by"`
	URL        string    `json:"url,omitempty" doc:"where nodes fetch the package, or the manifest of a signed release that is at no registry"`

	Channel   string     `json:"channel,omitempty" doc:"channel of a signed release; packages have neither this field nor those below"`
	Reference string     `json:"reference,omitempty" doc:"HOST[:PORT]/REPOSITORY of the release's registry; empty: the broker stores the release"`
	PlainHTTP bool       `json:"plain_http,omitzero" doc:"the registry is reached over HTTP without TLS"`
	KeyID     string     `json:"key_id,omitempty" doc:"id of the release key that verified the signature"`
	Statement *Statement `json:"statement,omitempty"`

	BelowFloor    bool      `json:"below_floor,omitzero"`
	RevokedAt     time.Time `json:"revoked_at,omitzero"`
	RevokedBy     string    `json:"revoked_by,omitempty"`
	RevokedReason string    `json:"revoked_reason,omitempty"`
}

// Statement is the signed description of a release.
type Statement struct {
	Commit       string      `json:"commit"`
	OS           string      `json:"os"`
	Arch         string      `json:"arch"`
	BinarySHA256 string      `json:"binary_sha256" doc:"hex SHA-256 of the program"`
	BinarySize   int64       `json:"binary_size"`
	StateSchema  StateSchema `json:"state_schema"`
	Protocol     int         `json:"protocol"`
	BuiltAt      time.Time   `json:"built_at"`
}

// StateSchema names the versions of the agent's own state: the range that the agent reads, and the
// version that the agent writes.
type StateSchema struct {
	ReadsMin int `json:"reads_min"`
	ReadsMax int `json:"reads_max"`
	Writes   int `json:"writes"`
}

// AgentReleaseList lists packages and signed releases, newest first.
type AgentReleaseList struct {
	Standing
	Items []AgentRelease     `json:"items"`
	Next  string             `json:"next" doc:"cursor of the next page; empty: there is no next page"`
	Floor *AgentReleaseFloor `json:"floor,omitempty" doc:"the lowest version that a node gets without an explicit rollback"`
}

// AgentReleasePublish is a signed release. The layer of the release lies at the named registry, or
// was uploaded to this broker before.
type AgentReleasePublish struct {
	Digest     string             `json:"digest" minLength:"71" maxLength:"71" doc:"sha256:HEX of the manifest"`
	Channel    string             `json:"channel" minLength:"1" maxLength:"32" doc:"stable, candidate, or pinned; pinned releases go only to nodes that are pinned to the version"`
	Reference  string             `json:"reference,omitempty" maxLength:"255" doc:"HOST[:PORT]/REPOSITORY, without tag or digest; empty: the broker stores the layer"`
	PlainHTTP  bool               `json:"plain_http,omitzero" doc:"the registry is reached over HTTP without TLS"`
	Manifest   []byte             `json:"manifest"`
	Statement  []byte             `json:"statement"`
	Signatures []ReleaseSignature `json:"signatures" maxItems:"8"`
}

// ReleaseSignature is one signature made by cosign.
type ReleaseSignature struct {
	Payload   []byte `json:"payload" doc:"the signed bytes, which name the manifest's digest: simple signing, or the statement of an envelope with its type and lengths (DSSE PAE)"`
	Signature []byte `json:"signature"`
}

// AgentReleaseFloor is the lowest version that a node is given without an explicit request for a
// rollback.
type AgentReleaseFloor struct {
	Version string    `json:"version"`
	SetBy   string    `json:"set_by"`
	Reason  string    `json:"reason"`
	SetAt   time.Time `json:"set_at"`
}

// AgentReleaseFloorPut changes the floor.
type AgentReleaseFloorPut struct {
	Version string `json:"version" minLength:"1" maxLength:"64"`
	Reason  string `json:"reason" minLength:"1" maxLength:"500"`
}

// ReleasePart is an uploaded part of a release.
type ReleasePart struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size" doc:"size in bytes"`
}
