package taskcatalog

import (
	"slices"
	"time"
)

var nodeSelfUpdate = define[SelfUpdateParams, SelfUpdateResult](Type{
	Name: "node.self_update", Version: 1,
	Summary: "fetch a signed release of the agent, put it beside the running one, switch to it, and go back if it does not come up",
	Class:   ClassMutating, Lane: LaneExclusive, Deadline: 3 * time.Hour,
	BrokerFills: []string{"manifest", "source", "signatures", "floor"},
	Example:     `{"phase":"update","version":"1.4.0"}`,
})

// The phases of an update. PhaseUpdate stages and activates in one task.
const (
	PhaseUpdate   = "update"   // stage, then activate
	PhaseStage    = "stage"    // fetch, verify, test; the running version stays
	PhaseActivate = "activate" // switch to what was staged
	PhaseRollback = "rollback" // switch to a version that the node has kept
)

// UpdateOutcome is what came of an update.
type UpdateOutcome string

// The outcomes.
const (
	UpdateStaged     UpdateOutcome = "staged"
	UpdateConfirmed  UpdateOutcome = "confirmed"   // the version asked for runs, and has spoken to the broker
	UpdateRolledBack UpdateOutcome = "rolled_back" // it was tried, and the version before it runs again
	UpdateRefused    UpdateOutcome = "refused"     // nothing was switched
)

// CredentialOCIPull is what an update from a private registry mints: an
// OCIPullCredential as JSON.
const CredentialOCIPull = "oci_pull"

// OCIPullCredential may pull one release, for a short time. It is a secret: minted
// for one task and never in its params. No node is given an account.
type OCIPullCredential struct {
	Token string `json:"token"` // bearer token
}

// SelfUpdateParams says which version, where its parts are, and what must hold.
type SelfUpdateParams struct {
	Phase   string `json:"phase" jsonschema:"enum=update,enum=stage,enum=activate,enum=rollback"`
	Version string `json:"version,omitempty" jsonschema:"maxLength=64,pattern=^[0-9][0-9A-Za-z.-]*$"` // a rollback without one: the version before
	// Manifest names the release; every other part is named in it.
	Manifest   *ReleaseManifest   `json:"manifest,omitempty"`
	Source     *ReleaseSource     `json:"source,omitempty"` // none: the broker's package endpoint
	Signatures []ReleaseSignature `json:"signatures,omitempty" jsonschema:"maxItems=8"`
	// Floor is the lowest version that may be put on the node.
	Floor string `json:"floor,omitempty" jsonschema:"maxLength=64"`
	// AllowRollback lets a version in that is below the floor, and Force one that
	// failed on this node before. Both want a reason.
	AllowRollback bool   `json:"allow_rollback,omitzero"`
	Force         bool   `json:"force,omitzero"`
	Reason        string `json:"reason,omitempty" jsonschema:"maxLength=300"`
	// ConfirmWindowSeconds is how long the new version has to reach the broker. Zero
	// means 300.
	ConfirmWindowSeconds int `json:"confirm_window_seconds,omitempty" jsonschema:"minimum=0,maximum=3600"`
}

// ReleaseManifest is the manifest of a release by its digest.
type ReleaseManifest struct {
	Digest string `json:"digest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$"`
	Size   int64  `json:"size" jsonschema:"minimum=1,maximum=16384"`
}

// ReleaseSource is where the parts of a release are.
type ReleaseSource struct {
	Repository string `json:"repository" jsonschema:"maxLength=300,pattern=^[A-Za-z0-9.:-]+/[a-z0-9][a-z0-9._/-]*$"` // host[:port]/name
	PlainHTTP  bool   `json:"plain_http,omitzero"`
	// Credential is the type of credential to mint; empty: anybody may pull.
	Credential string `json:"credential,omitempty" jsonschema:"enum=oci_pull"`
}

// ReleaseSignature is a signature that cosign made of a release: see package release.
type ReleaseSignature struct {
	Payload   []byte `json:"payload" jsonschema:"maxLength=5464"`
	Signature []byte `json:"signature" jsonschema:"maxLength=344"`
}

// SelfUpdateResult is what came of an update, as it was when the result was made: by
// the new version once it was confirmed, or by the one before it.
type SelfUpdateResult struct {
	Phase       string        `json:"phase"`
	FromVersion string        `json:"from_version"`
	ToVersion   string        `json:"to_version"`
	Outcome     UpdateOutcome `json:"outcome"`
	Reason      Code          `json:"reason,omitempty"` // why it was rolled back or refused
	Slots       []UpdateSlot  `json:"slots"`
	// Seconds is from the beginning of the task; SwitchSeconds as in AgentDelivery.
	Seconds       float64 `json:"seconds"`
	SwitchSeconds float64 `json:"switch_seconds,omitempty"`
	BytesFetched  int64   `json:"bytes_fetched,omitempty"` // by this task
	Already       bool    `json:"already,omitzero"`        // there was nothing to do
}

// UpdateSlot is one version on a node.
type UpdateSlot struct {
	Name     string `json:"name"` // of its folder
	Version  string `json:"version"`
	SHA256   string `json:"sha256"` // hex, of the program
	Current  bool   `json:"current,omitzero"`
	Good     bool   `json:"good,omitzero"`     // what the watcher goes back to
	Previous bool   `json:"previous,omitzero"` // what a rollback goes back to
	Pinned   bool   `json:"pinned,omitzero"`   // it failed here, and is skipped
}

// AgentBuild is which program a node runs, and how it came there. It goes with a
// node's report.
type AgentBuild struct {
	Commit   string         `json:"commit"`
	SHA256   string         `json:"sha256"` // hex, of the running program; empty: it could not be read
	Delivery *AgentDelivery `json:"delivery,omitempty"`
	Previous string         `json:"previous,omitempty"` // version that a rollback without one goes back to
	Pins     []AgentPin     `json:"pins,omitempty"`
}

// AgentPin is a version that a node skips, since it failed there or a person said so.
type AgentPin struct {
	Version string `json:"version"`
	Reason  Code   `json:"reason"`
}

// MaxAgentPins is how many a node tells of, and a broker keeps: of more the last.
const MaxAgentPins = 32

// ByHand begins the id of a delivery that a person made on the node.
const ByHand = "by-hand-"

// AgentDelivery is the last update of a node that came to an end.
type AgentDelivery struct {
	ID      string        `json:"id"` // of the task; ByHand and when; or unknown- and when, where that was lost
	From    string        `json:"from"`
	To      string        `json:"to"`
	Outcome UpdateOutcome `json:"outcome"`
	Reason  Code          `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	At      time.Time     `json:"at"`
	// SwitchSeconds is from the stop of the one version until the other was confirmed, or,
	// where it was put back, from when it first failed until the one before was ready.
	SwitchSeconds float64 `json:"switch_seconds,omitempty"`
}

// Bound makes what a node says of its program fit to store and to show. A delivery that
// came to nothing that there is was none: what else the broker says of one, it says
// itself.
func (b *AgentBuild) Bound() {
	if d := b.Delivery; d != nil && !slices.Contains([]UpdateOutcome{UpdateStaged, UpdateConfirmed, UpdateRolledBack, UpdateRefused}, d.Outcome) {
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
