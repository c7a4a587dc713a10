package broker

import (
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// AgentChannel is the release channel that a node's agent follows.
type AgentChannel string

// The channels. A node on candidate gets the newest release of stable and candidate, since an
// accepted release is no worse than a candidate.
const (
	ChannelStable    AgentChannel = "stable"
	ChannelCandidate AgentChannel = "candidate"
	ChannelPinned    AgentChannel = "pinned" // one version, until an operator changes the pin
)

// AgentChannels lists all channels, of nodes and of releases. A pinned release goes only to the
// nodes pinned to exactly that version.
var AgentChannels = []AgentChannel{ChannelStable, ChannelCandidate, ChannelPinned}

// DeliveryMode is how an agent is delivered to a node.
type DeliveryMode string

// The modes.
const (
	ByReimage       DeliveryMode = "reimage"        // MAAS installs a fresh system
	ByManualInstall DeliveryMode = "manual_install" // a person installs the agent; the broker waits for its report
	ByRebootstrap   DeliveryMode = "rebootstrap"    // the running agent replaces itself
)

// DeliveryModes lists all modes.
var DeliveryModes = []DeliveryMode{ByReimage, ByManualInstall, ByRebootstrap}

// DeliveryScenario is the purpose of a delivery.
type DeliveryScenario string

// The scenarios. config_repair is separate from drift_reconcile, so that a node with the right
// agent and a stale configuration does not get another agent.
const (
	BootstrapInstall  DeliveryScenario = "bootstrap_install"
	InPlaceUpgrade    DeliveryScenario = "in_place_upgrade"
	RepairReinstall   DeliveryScenario = "repair_reinstall"
	CertificateRepair DeliveryScenario = "certificate_repair"
	ConfigRepair      DeliveryScenario = "config_repair"
	DriftReconcile    DeliveryScenario = "drift_reconcile"
)

// DeliveryScenarios lists all scenarios.
var DeliveryScenarios = []DeliveryScenario{
	BootstrapInstall, InPlaceUpgrade, RepairReinstall, CertificateRepair, ConfigRepair,
	DriftReconcile,
}

// SafetyPolicy is when a run may work on a node's agent.
type SafetyPolicy string

// The policies.
const (
	OnlyIdle   SafetyPolicy = "idle"        // no tenant is on the node; otherwise the run is refused
	AfterDrain SafetyPolicy = "after_drain" // no new tenant is let in, and the run waits until the present tenants have left
	Forced     SafetyPolicy = "forced"      // whoever is on the node
)

// SafetyPolicies lists all policies.
var SafetyPolicies = []SafetyPolicy{OnlyIdle, AfterDrain, Forced}

// AgentDrift compares a node's agent with the wanted agent.
type AgentDrift string

// The drift states.
const (
	AgentInSync        AgentDrift = "in_sync"
	AgentVersionDrift  AgentDrift = "version_drift"
	AgentConfigDrift   AgentDrift = "config_drift"
	AgentCertificate   AgentDrift = "certificate_only_repair_needed"
	AgentUnknown       AgentDrift = "unknown" // the build of the running agent is unknown
	certificateTooSoon            = 6 * time.Hour
)

// Drifted reports whether the agent needs work. An unknown build counts as drift.
func (d AgentDrift) Drifted() bool { return d != AgentInSync }

// The events of a delivery itself, with subject node/ID, for deliveries without a run's events.
const (
	AgentUpdatedEvent      = AgentKinds + ".completed"
	AgentUpdateFailedEvent = AgentKinds + ".failed"
	AgentRolledBackEvent   = "agent.rollback.completed" // also written by a run
)

// Agent holds the wanted state and the known state of a node's agent.
type Agent struct {
	NodeID  string
	Channel AgentChannel
	Pinned  string       // version, for channel pinned
	Mode    DeliveryMode // how the agent is to be delivered

	// The running program, as the agent reports it; empty: the agent is too old to report it.
	Commit, SHA256 string
	ReportedAt     time.Time
	Previous       string // version for a rollback
	Pins           []taskcatalog.AgentPin

	// The last delivery. Result is running until the delivery's run has ended.
	AttemptAt     time.Time
	Result        string
	Reason        string
	Seconds       int64
	CorrelationID string
	DeliveryID    string // the last delivery that the node itself reported
}

// NewAgent returns the defaults for a node without agent settings.
func NewAgent(nodeID string) Agent {
	return Agent{NodeID: nodeID, Channel: ChannelStable, Mode: ByRebootstrap}
}

// AgentRelease is a published release, with the fields that drift is judged by.
type AgentRelease struct {
	Version string
	Channel AgentChannel
	Commit  string
	SHA256  string // hex, of the program
	Revoked bool
}

// Standing is the judged drift of an agent, with reasons.
type Standing struct {
	Drift   AgentDrift
	Desired string   // version; empty: no version is wanted
	Why     []string // for people; empty: the agent is in sync
}

// AgentStanding judges the drift of a node's agent. want is the release that the node shall run;
// nil: no release is published, or the pinned release is not. trust is the version of the trust
// bundle in force. A fault that prevents all work on the agent is judged first: an agent with an
// expired certificate cannot receive a version.
func AgentStanding(n Node, a Agent, want *AgentRelease, trust int64, now time.Time) Standing {
	s := Standing{Drift: AgentInSync}
	if want != nil {
		s.Desired = want.Version
	} else if a.Channel == ChannelPinned {
		s.Desired = a.Pinned
	}
	found := func(d AgentDrift, format string, args ...any) {
		if s.Drift == AgentInSync {
			s.Drift = d
		}
		s.Why = append(s.Why, fmt.Sprintf(format, args...))
	}
	switch left := n.CertNotAfter.Sub(now); {
	case n.Epoch == 0:
		found(AgentUnknown, "the node has not enrolled")
	case left <= 0:
		found(AgentCertificate, "its certificate has expired")
	case left < certificateTooSoon:
		found(AgentCertificate, "its certificate is overdue for renewal")
	}
	switch {
	case n.Epoch > 0 && UnknownBuild(n.AgentVersion, a.Commit):
		found(AgentUnknown, "the build of its agent is unknown")
	case s.Desired != "" && n.AgentVersion != s.Desired:
		found(AgentVersionDrift, "the agent runs %s, and %s is desired", n.AgentVersion, s.Desired)
	case want != nil && n.AgentVersion == want.Version && (a.Commit != want.Commit || a.SHA256 != want.SHA256):
		found(AgentVersionDrift, "the agent runs another program than release %s", want.Version)
	}
	if n.ResolverWanted != "" && n.ResolverWanted != n.ResolverDigest {
		found(AgentConfigDrift, "its resolver profiles differ from the assigned set")
	}
	if n.Epoch > 0 && n.TrustVersion < trust {
		found(AgentConfigDrift, "the node has not confirmed the trust bundle in force")
	}
	return s
}

// UnknownBuild reports whether a version and a commit leave the running program unidentified.
func UnknownBuild(version, commit string) bool {
	return version == "" || version == "dev" || strings.HasSuffix(version, "-dev") || commit == "" || commit == "unknown" ||
		strings.HasSuffix(commit, "-dirty")
}
