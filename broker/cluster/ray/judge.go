package ray

import (
	"regexp"

	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
)

// The states of a node in Ray.
const (
	alive = "ALIVE"
	dead  = "DEAD"
)

// nodeID is the form of Ray's ids of nodes.
var nodeID = regexp.MustCompile(`^[0-9a-f]{56}$`)

// judge makes a membership of an answer about the nodes of a name that are alive.
func judge(l *list, node string) cluster.Membership {
	unknown := func(words string) cluster.Membership { return cluster.Membership{State: cluster.Unknown, Words: words} }
	if !l.whole() {
		return unknown("the answer is not whole")
	}
	var living []record
	for _, r := range l.Result {
		switch {
		case r.Name != node:
			return unknown("the answer is about another node")
		case r.State == alive:
			living = append(living, r)
		case r.State != dead:
			return unknown(taskcatalog.Clean("the node is "+r.State, 64))
		}
	}
	switch {
	case len(living) == 0:
		return cluster.Membership{State: cluster.Absent, Words: "no node of this name is ALIVE"}
	case len(living) > 1:
		return unknown("several nodes with this name are ALIVE")
	case living[0].Head == nil:
		return unknown("the answer does not say whether the node is the head")
	case *living[0].Head:
		return unknown("the node is the head of the cluster")
	case !nodeID.MatchString(living[0].ID):
		return unknown("the node has no id of Ray")
	}
	return cluster.Membership{State: cluster.Member, Words: alive, ID: living[0].ID}
}
