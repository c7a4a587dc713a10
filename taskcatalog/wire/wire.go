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
	ProgressTick = 15 * time.Second // greatest interval between progress reports
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

// Problem is the body of every error answer (RFC 9457).
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
	// Facts describe the node's hardware, as far as the node could read them.
	Facts        *taskcatalog.Facts      `json:"facts,omitempty"`
	Agent        *taskcatalog.AgentBuild `json:"agent,omitempty"`
	Hostname     string                  `json:"hostname"`
	Now          time.Time               `json:"now"` // the node's clock
	MAASSystemID string                  `json:"maas_system_id,omitempty"`
}

// EnrollReply completes the enrolment of a node.
type EnrollReply struct {
	NodeID      string    `json:"node_id"`
	NodeEpoch   int64     `json:"node_epoch"`
	Certificate string    `json:"certificate"`  // PEM: leaf, then the chain up to the root
	TrustBundle string    `json:"trust_bundle"` // DSSE envelope as JSON text
	Now         time.Time `json:"now"`
	// ResolverConfig is the task with the node's resolver profiles; nil if the node has no profile
	// set assigned.
	ResolverConfig *CarriedTask `json:"resolver_config,omitempty"`
}

// CarriedTask is a task inside another answer. Carrying is not a delivery: there is no attempt and
// no lease, and the broker accepts the result only after an ordinary delivery of the task.
type CarriedTask struct {
	TaskID   string `json:"task_id"`
	Envelope string `json:"envelope"` // DSSE envelope as JSON text: exactly the signed bytes
}

// RenewRequest asks for a new certificate for the node's present key, or for a new key within a
// rotation.
type RenewRequest struct {
	CSR          string             `json:"csr"`
	AgentVersion string             `json:"agent_version"`
	TaskTypes    []string           `json:"task_types"`
	Capabilities map[string]string  `json:"capabilities"`
	Facts        *taskcatalog.Facts `json:"facts,omitempty"`
	// Agent describes the running program and the result of the last update; nil: the agent is too
	// old to report it.
	Agent        *taskcatalog.AgentBuild `json:"agent,omitempty"`
	TrustVersion int64                   `json:"trust_version"` // of the bundle in force on the node
	// RotationTask is the id of the node.rotate_identity task for a new key; empty: the request is
	// for the present key.
	RotationTask string `json:"rotation_task,omitempty"`
}

// RenewReply carries the new certificate.
type RenewReply struct {
	Certificate string    `json:"certificate"`
	Late        bool      `json:"late"` // the old certificate had expired
	Now         time.Time `json:"now"`
}

// Headers of every authenticated request of a node, so that a change reaches the broker with the
// next poll.
const (
	HeaderAgentVersion = "Hostler-Agent-Version"
	HeaderTrustVersion = "Hostler-Trust-Version"
	HeaderReport       = "Hostler-Report" // digest of the whole report
)

// TerminalGone reports that the process of a terminal session is gone and did not end by itself.
type TerminalGone struct {
	How string `json:"how"` // in systemd's words: signal, core-dump, oom-kill …
}

// HeaderInstance carries a random id of the running agent process in each poll. The id
// distinguishes two processes with the same identity. Older agents do not send the header.
const HeaderInstance = "Hostler-Instance"

// HeaderRequest carries an id in each request for a secret, in the form of an instance id. Repeats
// of an unanswered request carry the same id.
const HeaderRequest = "Idempotency-Key"

// HeaderPrefer and PreferNoWait ask for an immediate answer to a poll (RFC 7240). An agent on trial
// uses them to learn whether the broker hears it. An older broker holds the poll.
const (
	HeaderPrefer = "Prefer"
	PreferNoWait = "wait=0"
)

// instanceBytes is the number of random bytes in an instance id.
const instanceBytes = 16

// NewInstance returns an instance id.
func NewInstance(random io.Reader) (string, error) {
	raw := make([]byte, instanceBytes)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("cannot make an instance id: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

// ValidInstance reports whether s has the form of an instance id: 32 lower-case hexadecimal digits.
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

// WaitReply is the 200 answer of tasks/wait. An empty answer is 204.
type WaitReply struct {
	Tasks  []Delivery `json:"tasks,omitempty"`
	Cancel []string   `json:"cancel,omitempty"` // task ids
	// Report asks the node to send its task types, capabilities and facts again, in a renewal: the
	// broker has another digest than the node.
	Report bool `json:"report,omitempty"`
}

// Delivery is one task, leased to the node.
type Delivery struct {
	TaskID     string    `json:"task_id"`
	Attempt    int       `json:"attempt"`
	LeaseUntil time.Time `json:"lease_until"`
	Envelope   string    `json:"envelope"` // DSSE envelope as JSON text: exactly the signed bytes
}

// ProgressRequest renews the lease and reports the progress of a task. Field names are stable:
// operators' programs read them.
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

// ProgressReply carries the new lease and the tasks to cancel.
type ProgressReply struct {
	LeaseUntil time.Time `json:"lease_until"`
	Cancel     []string  `json:"cancel,omitempty"`
}

// ResultRequest reports the end of a task. The first result stands.
type ResultRequest struct {
	Attempt  int                 `json:"attempt"`
	Outcome  taskcatalog.Outcome `json:"outcome"`
	Code     taskcatalog.Code    `json:"code,omitempty"`
	Message  string              `json:"message,omitempty"`
	Result   json.RawMessage     `json:"result,omitempty"`
	Evidence string              `json:"evidence,omitempty"` // DSSE envelope as JSON text
	// Archive is the archive named by the result's digest, for task types with an archive; base64.
	Archive []byte `json:"archive,omitempty"`
}

// ResultReply is the recorded result: the new result, or an earlier one.
type ResultReply struct {
	TaskID  string              `json:"task_id"`
	Status  string              `json:"status"`
	Outcome taskcatalog.Outcome `json:"outcome"`
	Code    taskcatalog.Code    `json:"code,omitempty"`
	Repeat  bool                `json:"repeat"`
}

// MintRequest asks for a secret that the task's type permits.
type MintRequest struct {
	Attempt        int    `json:"attempt"`
	CredentialType string `json:"credential_type"`
	// StepID is the step of an operation's plan that the secret is for; empty for other tasks.
	StepID string `json:"step_id,omitempty"`
}

// MintReply carries the secret. The node never stores the secret unless writing the secret is the
// task's purpose.
type MintReply struct {
	CredentialType string    `json:"credential_type"`
	Secret         string    `json:"secret"`
	ExpiresAt      time.Time `json:"expires_at"`
}
