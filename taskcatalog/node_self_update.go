package taskcatalog

import (
	"slices"
	"time"
)

var nodeSelfUpdate = define[SelfUpdateParams, SelfUpdateResult](Type{
	Name: "node.self_update", Version: 1,
	Summary: "fetch a signed release of the agent, install it beside the running one, switch to it, and roll back if it does not start",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 3 * time.Hour,
	BrokerFills: []string{"manifest", "source", "signatures", "floor"},
	Example:     `{"phase":"update","version":"1.4.0"}`,
})

// The phases of an update. PhaseUpdate stages and activates in one task.
const (
	PhaseUpdate   = "update"   // stage, then activate
	PhaseStage    = "stage"    // fetch, verify, test; the running version stays
	PhaseActivate = "activate" // switch to the staged version
	PhaseRollback = "rollback" // switch to a version kept on the node
)

// UpdateOutcome is the outcome of an update.
type UpdateOutcome string

// The outcomes.
const (
	UpdateStaged     UpdateOutcome = "staged"
	UpdateConfirmed  UpdateOutcome = "confirmed"   // the requested version runs and has reached the broker
	UpdateRolledBack UpdateOutcome = "rolled_back" // the requested version was tried, and the previous version runs again
	UpdateRefused    UpdateOutcome = "refused"     // nothing was switched
)

// CredentialOCIPull is the type of credential that an update from a private registry mints: an
// OCIPullCredential as JSON.
const CredentialOCIPull = "oci_pull"

// OCIPullCredential permits the pull of one release for a short time. The credential is a secret:
// it is minted for one task and never part of the params. No node gets an account at the registry.
type OCIPullCredential struct {
	Token string `json:"token"` // bearer token
}

// SelfUpdateParams names the version, the source of its parts, and the conditions.
type SelfUpdateParams struct {
	Phase string `json:"phase" jsonschema:"enum=update,enum=stage,enum=activate,enum=rollback"`
	// Version is empty in a rollback to the previous version.
	Version string `json:"version,omitempty" jsonschema:"maxLength=64,pattern=^[0-9][0-9A-Za-z.-]*$"`
	// Manifest names the release; the manifest names every other part.
	Manifest   *ReleaseManifest   `json:"manifest,omitempty"`
	Source     *ReleaseSource     `json:"source,omitempty"` // nil: the broker's package endpoint
	Signatures []ReleaseSignature `json:"signatures,omitempty" jsonschema:"maxItems=8"`
	// Floor is the lowest permitted version.
	Floor string `json:"floor,omitempty" jsonschema:"maxLength=64"`
	// AllowRollback permits a version below the floor. Force permits a version that failed on this
	// node before. Both require a Reason.
	AllowRollback bool   `json:"allow_rollback,omitzero"`
	Force         bool   `json:"force,omitzero"`
	Reason        string `json:"reason,omitempty" jsonschema:"maxLength=300"`
	// ConfirmWindowSeconds is the time in which the new version must reach the broker. Zero means
	// 300.
	ConfirmWindowSeconds int `json:"confirm_window_seconds,omitempty" jsonschema:"minimum=0,maximum=3600"`
}

// ReleaseManifest is the manifest of a release by its digest.
type ReleaseManifest struct {
	Digest string `json:"digest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	Size   int64  `json:"size" jsonschema:"minimum=1,maximum=16384"`
}

// ReleaseSource is the registry that holds the parts of a release.
type ReleaseSource struct {
	Repository string `json:"repository" jsonschema:"maxLength=300,pattern=^[A-Za-z0-9.:-]+/[a-z0-9][a-z0-9._/-]*$"` // host[:port]/name
	PlainHTTP  bool   `json:"plain_http,omitzero"`
	// Credential is the type of credential to mint; empty: the repository is public.
	Credential string `json:"credential,omitempty" jsonschema:"enum=oci_pull"`
}

// ReleaseSignature is a cosign signature of a release: see package release.
type ReleaseSignature struct {
	Payload   []byte `json:"payload" jsonschema:"maxLength=5464"`
	Signature []byte `json:"signature" jsonschema:"maxLength=344"`
}

// SelfUpdateResult reports an update as of the time of the result: by the new version after its
// confirmation, or by the version before it.
type SelfUpdateResult struct {
	Phase       string        `json:"phase"`
	FromVersion string        `json:"from_version"`
	ToVersion   string        `json:"to_version"`
	Outcome     UpdateOutcome `json:"outcome"`
	Reason      Code          `json:"reason,omitempty"` // why the update was rolled back or refused
	Slots       []UpdateSlot  `json:"slots"`
	// Seconds counts from the start of the task; for SwitchSeconds see AgentDelivery.
	Seconds       float64 `json:"seconds"`
	SwitchSeconds float64 `json:"switch_seconds,omitempty"`
	BytesFetched  int64   `json:"bytes_fetched,omitempty"` // by this task
	Already       bool    `json:"already,omitzero"`        // there was nothing to do
}

// UpdateSlot is one installed version of the agent on a node.
type UpdateSlot struct {
	Name     string `json:"name"` // of its folder
	Version  string `json:"version"`
	SHA256   string `json:"sha256"` // hex, of the program
	Current  bool   `json:"current,omitzero"`
	Good     bool   `json:"good,omitzero"`     // the watcher's fallback
	Previous bool   `json:"previous,omitzero"` // the target of a rollback without a version
	Pinned   bool   `json:"pinned,omitzero"`   // the version is skipped: it failed here, or a person pinned it
}

// AgentBuild says which program a node runs, and how the program got there. AgentBuild is part of
// the node's report.
type AgentBuild struct {
	Commit   string         `json:"commit"`
	SHA256   string         `json:"sha256"` // hex, of the running program; empty: the program could not be read
	Delivery *AgentDelivery `json:"delivery,omitempty"`
	Previous string         `json:"previous,omitempty"` // the target of a rollback without a version
	Pins     []AgentPin     `json:"pins,omitempty"`
}

// AgentPin is a version that a node skips, because the version failed there or a person pinned it.
type AgentPin struct {
	Version string `json:"version"`
	Reason  Code   `json:"reason"`
}

// MaxAgentPins is the greatest number of pins that a node reports and a broker keeps; of more pins
// the last ones count.
const MaxAgentPins = 32

// ByHand is the id prefix of a delivery that a person made on the node.
const ByHand = "by-hand-"

// AgentDelivery is the last completed update of a node.
type AgentDelivery struct {
	ID      string        `json:"id"` // the task's id; ByHand and the time; or unknown- and the time, if the id was lost
	From    string        `json:"from"`
	To      string        `json:"to"`
	Outcome UpdateOutcome `json:"outcome"`
	Reason  Code          `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	At      time.Time     `json:"at"`
	// SwitchSeconds counts from the stop of the old version to the confirmation of the new version.
	// After a rollback it counts from the first failure of the new version until the old version
	// was ready.
	SwitchSeconds float64 `json:"switch_seconds,omitempty"`
}

// Bound cuts a node's report on its program to a size and form fit to store and to show. A delivery
// with an outcome other than the UpdateOutcome values is dropped: only the broker itself records
// others.
func (b *AgentBuild) Bound() {
	if d := b.Delivery; d != nil && !slices.Contains([]UpdateOutcome{UpdateStaged, UpdateConfirmed, UpdateRolledBack, UpdateRefused},
		d.Outcome) {
		b.Delivery = nil
	}
	b.Commit, b.SHA256, b.Previous = Clean(b.Commit, 64), Clean(b.SHA256, 64), Clean(b.Previous, 64)
	b.Pins = slices.Clone(b.Pins[max(len(b.Pins)-MaxAgentPins, 0):])
	for i, p := range b.Pins {
		b.Pins[i] = AgentPin{Version: Clean(p.Version, 64), Reason: Code(Clean(string(p.Reason), 64))}
	}
	if d := b.Delivery; d != nil {
		d.ID, d.From, d.To = Clean(d.ID, 80), Clean(d.From, 64), Clean(d.To, 64)
		d.Outcome, d.Reason = UpdateOutcome(Clean(string(d.Outcome), 32)), Code(Clean(string(d.Reason), 64))
		d.Message = Clean(d.Message, MaxText)
		d.SwitchSeconds = max(d.SwitchSeconds, 0)
	}
}
