package wire

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// Bounds of the agent API.
const (
	MaxBody      = 1 << 20          // bytes of any request body
	MaxWait      = 50 * time.Second // how long tasks/wait holds a request
	LeaseTime    = 60 * time.Second // of a dispatched task; progress renews it
	ProgressTick = 15 * time.Second // progress is sent at least this often
)

// Decode reads at most MaxBody bytes from r and decodes them strictly. Codes:
// too_large, malformed.
func Decode(r io.Reader, v any) error {
	raw, err := io.ReadAll(io.LimitReader(r, MaxBody+1))
	if err != nil {
		return taskcatalog.Errorf(taskcatalog.CodeMalformed, "cannot read the body: %v", err)
	}
	if len(raw) > MaxBody {
		return taskcatalog.Errorf(taskcatalog.CodeTooLarge, "body is larger than %d bytes", MaxBody)
	}
	return taskcatalog.DecodeStrict(raw, v)
}

// Problem is the body of every answer that is not a success (RFC 9457).
type Problem struct {
	Type   string           `json:"type,omitempty"`
	Title  string           `json:"title"`
	Status int              `json:"status"`
	Detail string           `json:"detail"`
	Code   taskcatalog.Code `json:"code"`
}

// EnrollRequest asks for a node's first certificate.
type EnrollRequest struct {
	Token        string            `json:"token"`
	CSR          string            `json:"csr"` // PEM
	AgentVersion string            `json:"agent_version"`
	TaskTypes    []string          `json:"task_types"`   // name@version
	Capabilities map[string]string `json:"capabilities"` // keys of the capability taxonomy
	// Facts are the rest of what the node is made of, where it could look.
	Facts        *taskcatalog.Facts      `json:"facts,omitempty"`
	Agent        *taskcatalog.AgentBuild `json:"agent,omitempty"`
	Hostname     string                  `json:"hostname"`
	Now          time.Time               `json:"now"` // the node's clock
	MAASSystemID string                  `json:"maas_system_id,omitempty"`
}

// EnrollReply makes the node a member.
type EnrollReply struct {
	NodeID      string    `json:"node_id"`
	NodeEpoch   int64     `json:"node_epoch"`
	Certificate string    `json:"certificate"`  // PEM: leaf, then the chain up to the root
	TrustBundle string    `json:"trust_bundle"` // DSSE envelope as JSON text
	Now         time.Time `json:"now"`
	// ResolverConfig is the task with the resolver profiles that the node shall
	// have; nil where nobody wants any for it.
	ResolverConfig *CarriedTask `json:"resolver_config,omitempty"`
}

// CarriedTask is a task that an answer brings along. That is no delivery: it has
// no attempt and no lease, and the broker takes its result once it has delivered
// the task as any other.
type CarriedTask struct {
	TaskID   string `json:"task_id"`
	Envelope string `json:"envelope"` // DSSE envelope as JSON text: exactly the bytes that were signed
}

// RenewRequest asks for a new certificate for the node's present key, or for
// a new key within a rotation.
type RenewRequest struct {
	CSR          string             `json:"csr"`
	AgentVersion string             `json:"agent_version"`
	TaskTypes    []string           `json:"task_types"`
	Capabilities map[string]string  `json:"capabilities"`
	Facts        *taskcatalog.Facts `json:"facts,omitempty"`
	// Agent is the program that runs, with what became of the last update; nil: an
	// agent from before it told.
	Agent        *taskcatalog.AgentBuild `json:"agent,omitempty"`
	TrustVersion int64                   `json:"trust_version"` // of the bundle in force on the node
	// RotationTask is the node.rotate_identity that a new key is asked for with;
	// empty: the request is for the key that is there.
	RotationTask string `json:"rotation_task,omitempty"`
}

// RenewReply carries the new certificate.
type RenewReply struct {
	Certificate string    `json:"certificate"`
	Late        bool      `json:"late"` // the old one had run out
	Now         time.Time `json:"now"`
}

// Headers that a node sends with every authenticated request, so that a
// change reaches the broker with the next poll.
const (
	HeaderAgentVersion = "Hostler-Agent-Version"
	HeaderTrustVersion = "Hostler-Trust-Version"
	HeaderReport       = "Hostler-Report" // digest of all that a report says
)

// TerminalGone says that the process of a terminal session did not end by itself, and is
// gone.
type TerminalGone struct {
	How string `json:"how"` // as systemd says it: signal, core-dump, oom-kill …
}

// HeaderInstance is what an agent's polls have beside them: a random id of the
// running process, by which two that hold one identity are told apart. An agent
// from before it sends none.
const HeaderInstance = "Hostler-Instance"

// HeaderRequest is what a request for a secret has beside it: an id, of the form of an
// instance's, that stays the same while it is repeated because no answer came.
const HeaderRequest = "Idempotency-Key"

// HeaderPrefer and PreferNoWait have a poll answered at once (RFC 7240): an agent on
// trial asks so, to learn whether it is heard. A broker from before it holds the poll.
const (
	HeaderPrefer = "Prefer"
	PreferNoWait = "wait=0"
)

// instanceBytes is how much chance is in an instance id.
const instanceBytes = 16

// NewInstance returns an instance id.
func NewInstance(random io.Reader) (string, error) {
	raw := make([]byte, instanceBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("cannot make an instance id: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

// ValidInstance reports whether s has the one form of an instance id: 32
// lower-case hexadecimal digits.
func ValidInstance(s string) bool {
	if len(s) != 2*instanceBytes {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// WaitReply is what tasks/wait answers with 200. Nothing to say is 204.
type WaitReply struct {
	Tasks  []Delivery `json:"tasks,omitempty"`
	Cancel []string   `json:"cancel,omitempty"` // task ids
	// Report asks the node to send its task types, capabilities and facts again,
	// by a renewal: the digest it names is not the one the broker has.
	Report bool `json:"report,omitempty"`
}

// Delivery is one task, leased to the node.
type Delivery struct {
	TaskID     string    `json:"task_id"`
	Attempt    int       `json:"attempt"`
	LeaseUntil time.Time `json:"lease_until"`
	Envelope   string    `json:"envelope"` // DSSE envelope as JSON text: exactly the bytes that were signed
}

// ProgressRequest renews the lease and says how far the task is. Field names
// are stable: operators' programs read them.
type ProgressRequest struct {
	Attempt          int       `json:"attempt"`
	CurrentStepIndex int       `json:"current_step_index"`
	TotalSteps       int       `json:"total_steps"`
	CurrentStepName  string    `json:"current_step_name"`
	StepStatus       string    `json:"step_status"` // running, succeeded, failed
	StepStartedAt    time.Time `json:"step_started_at"`
	StepPercent      int       `json:"step_percent"`
	Message          string    `json:"message,omitempty"`
}

// ProgressReply carries the new lease and what to stop.
type ProgressReply struct {
	LeaseUntil time.Time `json:"lease_until"`
	Cancel     []string  `json:"cancel,omitempty"`
}

// ResultRequest ends a task. The first result stands.
type ResultRequest struct {
	Attempt  int                 `json:"attempt"`
	Outcome  taskcatalog.Outcome `json:"outcome"`
	Code     taskcatalog.Code    `json:"code,omitempty"`
	Message  string              `json:"message,omitempty"`
	Result   json.RawMessage     `json:"result,omitempty"`
	Evidence string              `json:"evidence,omitempty"` // DSSE envelope as JSON text
	// Archive is what a result names by its digest, of the types that have one; base64.
	Archive []byte `json:"archive,omitempty"`
}

// ResultReply is the recorded result: the one sent, or the earlier one.
type ResultReply struct {
	TaskID  string              `json:"task_id"`
	Status  string              `json:"status"`
	Outcome taskcatalog.Outcome `json:"outcome"`
	Code    taskcatalog.Code    `json:"code,omitempty"`
	Repeat  bool                `json:"repeat"`
}

// MintRequest asks for a secret that the task's type may have.
type MintRequest struct {
	Attempt        int    `json:"attempt"`
	CredentialType string `json:"credential_type"`
}

// MintReply carries the secret. It is never stored by the node unless writing
// it is the task's purpose.
type MintReply struct {
	CredentialType string    `json:"credential_type"`
	Secret         string    `json:"secret"`
	ExpiresAt      time.Time `json:"expires_at"`
}
