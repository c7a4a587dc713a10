package turnover

import (
	"context"
	"slices"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/onboarding"
)

type (
	run   = chain.Run[Turnover]
	stage = chain.Stage[Turnover]
)

// Chains builds the lists of this package. One value serves a whole broker.
type Chains struct {
	Nodes Nodes
	MAAS  *onboarding.Chains // with Nodes that keep the node's record (records.ReimageNodes)
}

// All are the lists of all modes.
func (c *Chains) All() []chain.Kind {
	return []chain.Kind{c.SoftReset(), c.Reimage(), c.FullDecommission(), c.StorageCleanup()}
}

// Of is the list of a mode; false: unknown mode.
func (c *Chains) Of(m Mode) (chain.Chain[Turnover], bool) {
	switch m {
	case SoftReset:
		return c.SoftReset(), true
	case Reimage:
		return c.Reimage(), true
	case FullDecommission:
		return c.FullDecommission(), true
	case StorageCleanup:
		return c.StorageCleanup(), true
	}
	return chain.Chain[Turnover]{}, false
}

// form is the form of the state of all lists. Form 1 has the image that was asked for, form 2 the node's place.
const form = 2

// SoftReset cleans a node without a new system.
func (c *Chains) SoftReset() chain.Chain[Turnover] {
	stages := []stage{
		{
			Name: "disable_node", Do: c.disable, Undo: c.keepFromUse, Retry: retries("disable_node"), Limit: within(records),
			About: aboutDisable,
		},
		{Name: "drain_node", Do: c.drain, Retry: retries("drain_node"), Limit: drainLimit, Waivable: true, About: aboutDrain},
		{
			Name: "rotate_node_identity", Do: c.rotate, Retry: retries("rotate_node_identity"), Limit: taskLimit("node.rotate_identity"),
			About: aboutRotate,
		},
		{
			Name: "cleanup_storage", Done: c.nothingToClean, Do: c.cleanStorage, Retry: retries("cleanup_storage"),
			Limit: taskLimit("node.storage_cleanup"), Waivable: true, About: aboutCleanup,
		},
		{
			Name: "erase_local_disks", Done: c.nothingToErase, Do: c.eraseDisks, Retry: retries("erase_local_disks"),
			Limit: taskLimit("node.disk_erase"), About: aboutErase,
		},
		{
			Name: "scrub_gpu", Done: c.noGPUs, Do: c.scrub, Retry: retries("scrub_gpu"), Limit: taskLimit("node.gpu_scrub"),
			About: aboutScrub,
		},
		{
			Name: "validate_clean_node", Do: c.validate, Retry: retries("validate_clean_node"), Limit: taskLimit("node.validate_clean"),
			About: aboutValidate,
		},
		{
			Name: "issue_clean_certificate", Do: c.refuseStale(c.certify), Retry: retries("issue_clean_certificate"),
			Limit: within(records),
			About: aboutCertify,
		},
		{Name: "enable_node", Do: c.enable, Retry: retries("enable_node"), Limit: within(records), About: aboutEnable},
	}
	rotated := 1 + slices.IndexFunc(stages, func(s stage) bool { return s.Name == "rotate_node_identity" })
	for i, s := range stages[rotated:] {
		stages[rotated+i] = c.refuseConflict(s)
	}
	return chain.Chain[Turnover]{Kind: SoftReset.Kind(), Form: form, Failing: c.diagnose, Stages: stages}
}

// StorageCleanup empties a node's storage between two uses. The node stays in service and is not
// handed out by this run: while the run works, no user is provisioned. The node is quarantined if
// it is found unclean, or if the run begins work and then fails or is cancelled before the
// inspection has ended.
func (c *Chains) StorageCleanup() chain.Chain[Turnover] {
	return chain.Chain[Turnover]{Kind: StorageCleanup.Kind(), Form: form, Stages: []stage{
		{
			Name: "cleanup_storage", Do: c.quarantineOnFailure(c.cleanVacant, "node.storage_cleanup"), Undo: c.quarantineUninspected,
			Retry: retries("cleanup_storage"), Limit: keptWithin("node.storage_cleanup"), About: aboutCleanup,
		},
		{
			Name: "validate_clean_node", Do: c.quarantineOnFailure(c.validate, "node.validate_clean"),
			Retry: retries("validate_clean_node"),
			Limit: keptWithin("node.validate_clean"), About: aboutValidate,
		},
	}}
}

// records is the limit of a stage that waits for no node.
const records = 15 * time.Minute

// soon is how often a task is polled.
const soon = 2 * time.Second

// usualRetries is the number of retries for a stage that the policy does not name.
const usualRetries = 2

func retries(stage string) func(Turnover) chain.Retry {
	return func(s Turnover) chain.Retry {
		n, named := s.Retries[stage]
		if !named {
			n = usualRetries
		}
		return chain.Retry{Attempts: n + 1, First: time.Duration(max(s.Backoff, 1)) * time.Second, Max: 5 * time.Minute}
	}
}

func within(d time.Duration) func(Turnover) chain.Limit {
	return func(Turnover) chain.Limit { return chain.Limit{After: d} }
}

// The failure classes of this package's stages.
const (
	inputError = chain.Class(broker.InputConfigError)
	transient  = chain.UpstreamTransient
	silent     = chain.Class(broker.AgentSilent)
	residue    = chain.Class(broker.ResidueFound)
	ambiguity  = chain.StateAmbiguity
	untrusted  = chain.Class(broker.EvidenceUntrusted)
	incomplete = chain.Class(broker.GPUScrubIncomplete)
	unerased   = chain.Class(broker.DiskEraseUnsupported)
	short      = chain.Class(broker.PolicyNotMet)
)

func about(touches, destructive string, d time.Duration) func(Turnover) chain.About {
	return func(Turnover) chain.About {
		return chain.About{Touches: touches, Destructive: destructive, Expected: d}
	}
}

var (
	aboutDisable  = about("the broker: the node takes no new tenant, and is owed a turnover", "", time.Second)
	aboutRotate   = about("the node: a new key and certificate; the old one is denied", "", 10*time.Second)
	aboutScrub    = about("the node: every GPU is overwritten, verified and reset", "the content of the GPUs' memory", 5*time.Minute)
	aboutValidate = about("nothing: the node is checked and compared with its baseline", "", time.Minute)
	aboutCertify  = about("the broker: a signed clean certificate", "", time.Second)
	aboutEnable   = about("the broker: the node takes tenants again", "", 10*time.Second)
)

func aboutDrain(s Turnover) chain.About {
	return chain.About{
		Touches:     "the node: sessions and processes of its users end, and their accounts go",
		Destructive: "its users' memory and home directories",
		Expected:    time.Duration(s.Policy.DrainGraceSeconds)*time.Second + 30*time.Second,
	}
}

func aboutCleanup(s Turnover) chain.About {
	return chain.About{
		Touches: "the node: " + s.StorageCleanup + " storage", Destructive: "temporary and scratch space, homes, containers, dumps, swap",
		Expected: 2 * time.Minute,
	}
}

func aboutErase(s Turnover) chain.About {
	if s.Erase == EraseNone {
		return chain.About{Touches: "nothing: no erase was requested"}
	}
	return chain.About{
		Touches: "the node: each disk except the system disks", Destructive: "all that is on these disks",
		Expected: 10 * time.Minute,
	}
}

// nothingToClean reports that no storage cleanup was requested.
func (c *Chains) nothingToClean(_ context.Context, r *run) (bool, error) {
	return r.State.StorageCleanup == CleanNone, nil
}
