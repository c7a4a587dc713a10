package agentlifecycle

import (
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
)

type (
	run   = chain.Run[Work]
	stage = chain.Stage[Work]
)

// Chains builds the lists of this package. One value serves a whole broker.
type Chains struct{ Nodes Nodes }

// All are the lists.
func (c *Chains) All() (all []chain.Kind) {
	for _, l := range Lists {
		all = append(all, c.Of(l))
	}
	return all
}

// Of is a list with its stages.
func (c *Chains) Of(l List) chain.Chain[Work] {
	// The undo of this stage withdraws the tasks of all stages. Its wait for the node has the same
	// limit.
	safe := stage{
		Name: "check_safety", Do: c.applySafety, Undo: c.withdraw, Retry: threeAttempts, Limit: drained,
		About: about("nothing: nobody is let in while the run has the node", time.Second),
	}
	verify := []stage{
		{
			Name: "verify_health", Do: c.verifyHealth, Retry: threeAttempts, Limit: answered(taskTime),
			About: about("nothing: the agent is to answer", 5*time.Second),
		},
		{
			Name: "verify_renewal", Do: c.verifyRenewal, Retry: threeAttempts, Limit: limitOf(verifyTime),
			About: about("the node: a new certificate for its key", time.Minute),
		},
		{
			Name: "verify_schedulable", Do: c.verifySchedulable, Limit: limitOf(verifyTime),
			About: about("nothing: the node is to be as fit for a tenant as before", 10*time.Second),
		},
	}
	version := stage{
		Name: "verify_version", Done: c.anyVersion, Do: c.verifyVersion, Limit: limitOf(verifyTime),
		About: about("nothing: the node is to report the release", time.Minute),
	}
	trust := stage{
		Name: "update_trust", Done: c.trustConfirmed, Do: c.updateTrust, Retry: threeAttempts, Limit: answered(taskTime),
		About: about("the node: the trust bundle in force", 5*time.Second),
	}
	var stages []stage
	switch l {
	case Update: // a node without the newest release key would refuse a release signed with it
		stages = []stage{safe, trust, {
			Name: "update_agent", Do: c.update, Retry: singleAttempt, Limit: answered(updateTime),
			About: about("the node: the release is fetched, verified, tested and switched to", time.Minute),
		}, version}
	case Certificate:
		stages = []stage{safe, {
			Name: "rotate_identity", Do: c.rotate, Retry: threeAttempts, Limit: answered(taskTime),
			About: about("the node: a new key and certificate; the old one is denied", 10*time.Second),
		}}
	case Config:
		stages = []stage{
			safe, trust,
			{
				Name: "push_profiles", Done: c.profilesConfirmed, Do: c.pushProfiles, Retry: threeAttempts, Limit: answered(taskTime),
				About: about("the node: its assigned resolver profiles", 5*time.Second),
			},
		}
	case Install:
		stages = []stage{safe, {
			Name: "wait_for_install", Do: c.waitForInstall, Limit: limitOf(installTime),
			About: about("nothing: a person installs the agent", time.Hour),
		}, version}
	case Reimage:
		stages = []stage{
			{
				Name: "start_reimage", Do: c.startReimage, Retry: threeAttempts, Limit: drained,
				About: about("MAAS: a turnover gives the node a fresh system", time.Second),
			},
			{
				Name: "wait_for_reimage", Do: c.waitForReimage, Limit: limitOf(installTime),
				About: about("nothing: the turnover has the node", 30*time.Minute),
			},
			version,
		}
	}
	stages = append(stages, verify...)
	return chain.Chain[Work]{Kind: l.Kind(), Stages: stages}
}

// Limits and intervals of stages.
const (
	soon        = 2 * time.Second
	verifyTime  = 15 * time.Minute
	taskTime    = 30 * time.Minute
	updateTime  = 5 * time.Hour // the task's own deadline, and an hour in which the task may begin
	drainTime   = 24 * time.Hour
	installTime = 7 * 24 * time.Hour
)

func threeAttempts(Work) chain.Retry { return chain.Retry{Attempts: 3, First: 5 * time.Second} }

// singleAttempt is a single attempt: the node's outcome of an update stands, and only a person
// retries.
func singleAttempt(Work) chain.Retry { return chain.Retry{Attempts: 1} }

func limitOf(d time.Duration) func(Work) chain.Limit {
	return func(Work) chain.Limit { return chain.Limit{After: d, Class: updateFailed} }
}

// answered is the limit of a stage that waits for a task; an agent without an answer by then
// counts as silent.
func answered(d time.Duration) func(Work) chain.Limit {
	return func(Work) chain.Limit { return chain.Limit{After: d, Class: silent, Code: "agent_silent"} }
}

func drained(s Work) chain.Limit {
	return chain.Limit{
		After: drainTime, Class: inputError, Code: "not_drained",
		Next: "end who is on node " + s.NodeID + ", then resume; or cancel, and start it with --safety forced",
	}
}

func about(touches string, d time.Duration) func(Work) chain.About {
	return func(Work) chain.About { return chain.About{Touches: touches, Expected: d} }
}

// The failure classes of this package's stages.
const (
	inputError   = chain.Class(broker.InputConfigError)
	transient    = chain.UpstreamTransient
	silent       = chain.Class(broker.AgentSilent)
	ambiguity    = chain.StateAmbiguity
	updateFailed = chain.Class(broker.AgentUpdateFailed)
)
