package api

import "time"

// Trust is the trust bundle in force, and how far the nodes have confirmed it. Trust holds
// everything needed to check evidence, clean certificates and audit heads.
type Trust struct {
	Version    int64       `json:"version"`
	IssuedAt   time.Time   `json:"issued_at"`
	CASHA256   string      `json:"ca_sha256" doc:"hex SHA-256 of the root certificate"`
	Keys       []TrustKey  `json:"keys"`
	Bundle     string      `json:"bundle" doc:"the signed bundle: a DSSE envelope as JSON text"`
	Rotation   *Rotation   `json:"rotation,omitempty" doc:"the rotation under way"`
	Stragglers []Straggler `json:"stragglers,omitempty" doc:"nodes that have not confirmed this version"`
	Gaps       []KeyGap    `json:"key_gaps,omitempty" doc:"brokers that lack some of these keys"`
}

// RootList lists the root certificates in force.
type RootList struct {
	Standing
	Items []Root `json:"items"`
	Next  string `json:"next" doc:"cursor of the next page; empty: there is no next page"`
}

// Root is a certificate by which callers know the broker.
type Root struct {
	ID          string    `json:"id" doc:"id of the key"`
	Certificate []byte    `json:"certificate" doc:"in DER"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
}

// KeyGap is a broker that lacks keys of the bundle.
type KeyGap struct {
	Broker string   `json:"broker" doc:"host name of the broker"`
	Lacks  []string `json:"lacks" doc:"use and id of each missing key"`
}

// TrustKey is one key of the bundle.
type TrustKey struct {
	Use         string    `json:"use" doc:"task, trust, statement, release or root"`
	ID          string    `json:"id"`
	PublicKey   []byte    `json:"public_key,omitempty" doc:"SPKI in DER"`
	Certificate []byte    `json:"certificate,omitempty" doc:"certificate of a root, in DER"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
	InForce     bool      `json:"in_force"`
}

// Rotation is an unfinished change of keys.
type Rotation struct {
	Use       string    `json:"use"`
	OldKeyID  string    `json:"old_key_id,omitempty"`
	NewKeyID  string    `json:"new_key_id"`
	StartedAt time.Time `json:"started_at"`
	OpenTasks int64     `json:"open_tasks,omitzero" doc:"open tasks signed with the old key"`
}

// Straggler is a node that has not confirmed the bundle in force.
type Straggler struct {
	NodeID             string    `json:"node_id"`
	Hostname           string    `json:"hostname"`
	Status             string    `json:"status"`
	TrustVersion       int64     `json:"trust_version"`
	LastAgentContactAt time.Time `json:"last_agent_contact_at,omitzero"`
	RefusedCode        string    `json:"refused_code,omitempty" doc:"why the node refused the bundle that was last sent"`
	RefusedMessage     string    `json:"refused_message,omitempty"`
	NextAction         string    `json:"recommended_next_action,omitempty" doc:"next action for the operator"`
}

// TrustRotate begins a rotation.
type TrustRotate struct {
	Use    string `json:"use" enum:"task,trust,statement,root"`
	Reason string `json:"reason" minLength:"1" maxLength:"500"`
}

// TrustFinish ends the rotation. The caller must name the nodes that have not confirmed the
// rotation: these nodes will need a new enrolment.
type TrustFinish struct {
	LeaveBehind []string `json:"leave_behind,omitempty" maxItems:"10000" doc:"ids of nodes that the rotation leaves behind"`
	Reason      string   `json:"reason" minLength:"1" maxLength:"500"`
}

// ReleaseKeyPut makes nodes trust releases of the agent that a key signed.
type ReleaseKeyPut struct {
	PublicKey string `json:"public_key" minLength:"1" maxLength:"4096" doc:"PEM in cosign's format: ECDSA P-256 or Ed25519"`
	Reason    string `json:"reason" minLength:"1" maxLength:"500"`
}
