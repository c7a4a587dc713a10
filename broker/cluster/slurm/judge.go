package slurm

import (
	"strings"

	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
)

// maxWords bounds the states of a node: Slurm has about thirty.
const maxWords = 32

// bases are Slurm's base states of a node, each with what it means without a flag.
var bases = map[string]cluster.State{
	"IDLE": cluster.Member, "ALLOCATED": cluster.Member, "MIXED": cluster.Member,
	"DOWN": cluster.Down, "ERROR": cluster.Down,
	"UNKNOWN": cluster.Joining, "FUTURE": cluster.Joining,
}

// flags are Slurm's flags beside a base state. A flag with a state takes a member that state; one
// without leaves the base as it is.
var flags = map[string]cluster.State{
	"DRAIN": "", "COMPLETING": "", "CLOUD": "", "DYNAMIC_NORM": "", "DYNAMIC_FUTURE": "", "MAINTENANCE": "", "RESERVED": "", "PLANNED": "",
	"BLOCKED": "", "REBOOT_REQUESTED": "", "PERFCTRS": "",
	"NOT_RESPONDING": cluster.Down, "FAIL": cluster.Down, "INVALID_REG": cluster.Down,
	"POWERED_DOWN": cluster.Down, "POWERING_DOWN": cluster.Down, "POWER_DOWN": cluster.Down,
	"POWERING_UP": cluster.Joining, "POWER_UP": cluster.Joining, "REBOOT_ISSUED": cluster.Joining,
}

// Numbers of errors in an answer: no error, and Slurm's ESLURM_INVALID_NODE_NAME.
const (
	noError     = 0
	unknownNode = 2018
)

// judge makes a membership of an answer about a node.
func judge(a *answer, node string) cluster.Membership {
	unknown := func(words string) cluster.Membership { return cluster.Membership{State: cluster.Unknown, Words: words} }
	if len(a.Nodes) == 0 {
		if !a.unknownNode(node) {
			return unknown("the answer has no node, and does not say that there is none")
		}
		return cluster.Membership{State: cluster.Absent, Words: "no such node"}
	}
	n := a.Nodes[0]
	switch {
	case len(a.Nodes) > 1:
		return unknown("the answer has several nodes")
	case n.Name != node:
		return unknown("the answer is about another node")
	case len(a.Errors) > 0:
		return unknown("the answer has a node and an error")
	case len(n.State) == 0 || len(n.State) > maxWords:
		return unknown("the answer has no state, or too many")
	}
	words := taskcatalog.Clean(strings.Join(n.State, "+"), 200)
	return cluster.Membership{State: stateOf(n.State), Words: words, Reason: taskcatalog.Clean(n.Reason, maxReason)}
}

// stateOf reads Slurm's words: one base state, and flags. A word that is not known makes the state
// unknown.
func stateOf(words []string) cluster.State {
	var base string
	is := map[string]bool{}
	flagged := cluster.Member
	for _, w := range words {
		_, isBase := bases[w]
		as, isFlag := flags[w]
		switch {
		case isBase && base == "":
			base = w
		case !isFlag:
			return cluster.Unknown
		case as == cluster.Down || as == cluster.Joining && flagged == cluster.Member:
			flagged = as
		}
		is[w] = true
	}
	state, ok := bases[base]
	switch {
	case !ok:
		return cluster.Unknown
	case is["DRAIN"] && (base == "IDLE" || state == cluster.Down) && !is["COMPLETING"]:
		return cluster.Drained
	case is["DRAIN"]:
		return cluster.Draining
	case state == cluster.Member:
		return flagged
	}
	return state
}
