package broker

import (
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// AgentChannel is where a node's agent is from.
type AgentChannel string

// The channels. A node of candidate gets what is newest of both, since what was
// accepted is no worse than a candidate.
const (
	ChannelStable    AgentChannel = "stable"
	ChannelCandidate AgentChannel = "candidate"
	ChannelPinned    AgentChannel = "pinned" // one version, until somebody says otherwise
)

// AgentChannels are all of them: of nodes, and of releases, where pinned is for the nodes
// that are pinned to that very version.
var AgentChannels = []AgentChannel{ChannelStable, ChannelCandidate, ChannelPinned}

// DeliveryMode is how an agent comes to a node.
type DeliveryMode string

// The modes.
const (
	ByReimage       DeliveryMode = "reimage"        // a fresh system, by MAAS
	ByManualInstall DeliveryMode = "manual_install" // a person puts it there, and the broker sees to it that it came
	ByRebootstrap   DeliveryMode = "rebootstrap"    // the agent that is there does it
)

// DeliveryModes are all of them.
var DeliveryModes = []DeliveryMode{ByReimage, ByManualInstall, ByRebootstrap}

// DeliveryScenario is what a delivery is for.
type DeliveryScenario string

// The scenarios. config_repair is apart from drift_reconcile so that a node whose agent
// is right is not given another one for a stale configuration.
const (
	BootstrapInstall  DeliveryScenario = "bootstrap_install"
	InPlaceUpgrade    DeliveryScenario = "in_place_upgrade"
	RepairReinstall   DeliveryScenario = "repair_reinstall"
	CertificateRepair DeliveryScenario = "certificate_repair"
	ConfigRepair      DeliveryScenario = "config_repair"
	DriftReconcile    DeliveryScenario = "drift_reconcile"
)

// DeliveryScenarios are all of them.
var DeliveryScenarios = []DeliveryScenario{BootstrapInstall, InPlaceUpgrade, RepairReinstall, CertificateRepair, ConfigRepair, DriftReconcile}

// SafetyPolicy is when a node's agent may be worked on.
type SafetyPolicy string

// The policies.
const (
	OnlyIdle   SafetyPolicy = "idle"        // nobody is on it; else it is refused
	AfterDrain SafetyPolicy = "after_drain" // nobody is let in any more, and those who are on it are waited for
	Forced     SafetyPolicy = "forced"      // whoever is on it
)

// SafetyPolicies are all of them.
var SafetyPolicies = []SafetyPolicy{OnlyIdle, AfterDrain, Forced}

// AgentDrift is how a node's agent stands to what is wanted of it.
type AgentDrift string

// The drift states.
const (
	AgentInSync        AgentDrift = "in_sync"
	AgentVersionDrift  AgentDrift = "version_drift"
	AgentConfigDrift   AgentDrift = "config_drift"
	AgentCertificate   AgentDrift = "certificate_only_repair_needed"
	AgentUnknown       AgentDrift = "unknown" // nobody knows which program it is
	certificateTooSoon            = 6 * time.Hour
)

// Drifted reports whether something is to be done: of an unknown build as well.
func (d AgentDrift) Drifted() bool { return d != AgentInSync }

// The events of a delivery itself, with subject node/ID, where no run has events of it.
const (
	AgentUpgraded      = AgentKinds + ".completed"
	AgentUpgradeFailed = AgentKinds + ".failed"
	AgentRolledBack    = "agent.rollback.completed" // by a run, too
)

// Agent is what is wanted of a node's agent, and what is known of it.
type Agent struct {
	NodeID  string
	Channel AgentChannel
	Pinned  string       // version, of channel pinned
	Mode    DeliveryMode // how it is to be delivered

	// Which program it is, as it says; empty: an agent from before that was told.
	Commit, SHA256 string
	ReportedAt     time.Time
	Previous       string // version that a rollback goes back to
	Pins           []taskcatalog.AgentPin

	// The last delivery. Result is running until its run has ended.
	AttemptAt     time.Time
	Result        string
	Reason        string
	Seconds       int64
	CorrelationID string
	DeliveryID    string // the last that the node itself told of
}

// NewAgent is that of a node of which nothing was said.
func NewAgent(nodeID string) Agent {
	return Agent{NodeID: nodeID, Channel: ChannelStable, Mode: ByRebootstrap}
}

// AgentRelease is one that was published, as far as drift is judged by it.
type AgentRelease struct {
	Version string
	Channel AgentChannel
	Commit  string
	SHA256  string // hex, of the program
	Revoked bool
}

// Standing is what an agent's drift is judged to be, and why.
type Standing struct {
	Drift   AgentDrift
	Desired string   // version; empty: nobody wants one
	Why     []string // for people; none: it is in sync
}

// AgentStanding judges a node's agent. want is the release that the node shall have;
// nil: none is published, or the pinned one is not. trust is the version of the trust
// bundle in force. What keeps the agent from being worked on at all comes first: an
// agent whose certificate is over cannot be told to take a version.
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
		found(AgentUnknown, "it has not enrolled")
	case left <= 0:
		found(AgentCertificate, "its certificate is over")
	case left < certificateTooSoon:
		found(AgentCertificate, "its certificate was to be renewed long ago")
	}
	switch {
	case n.Epoch > 0 && UnknownBuild(n.AgentVersion, a.Commit):
		found(AgentUnknown, "nobody knows which build it runs")
	case s.Desired != "" && n.AgentVersion != s.Desired:
		found(AgentVersionDrift, "it runs %s, and %s is wanted", n.AgentVersion, s.Desired)
	case want != nil && n.AgentVersion == want.Version && (a.Commit != want.Commit || a.SHA256 != want.SHA256):
		found(AgentVersionDrift, "it runs another program than release %s", want.Version)
	}
	if n.ResolverWanted != "" && n.ResolverWanted != n.ResolverDigest {
		found(AgentConfigDrift, "its resolver profiles are not those it shall have")
	}
	if n.Epoch > 0 && n.TrustVersion < trust {
		found(AgentConfigDrift, "it has not confirmed the trust bundle in force")
	}
	return s
}

// UnknownBuild reports whether a version and a commit do not tell which program runs.
func UnknownBuild(version, commit string) bool {
	return version == "" || version == "dev" || strings.HasSuffix(version, "-dev") || commit == "" || commit == "unknown" || strings.HasSuffix(commit, "-dirty")
}
