package ray

import (
	"fmt"

	"github.com/hostler/hostler/broker/cluster"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// The states of a node in Ray.
const (
	alive = "ALIVE"
	dead  = "DEAD"
)

// nodeID is the form of Ray's ids of nodes.
var nodeID = lazyregexp.New(`^[0-9a-f]{56}$`)

// mark is the label that the agent starts Ray with: the node's id. Nobody can set it later.
const mark = taskcatalog.ClusterNodeLabel

// judge makes a membership of an answer about the nodes of a name that are alive.
func judge(l *list, node cluster.Node) cluster.Membership {
	unknown := func(words string) cluster.Membership { return cluster.Membership{State: cluster.Unknown, Words: words} }
	if !l.whole() {
		return unknown("the answer is not whole")
	}
	var living []record
	for _, r := range l.Result {
		switch {
		case r.Name != node.Name:
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
	// Ray gives an order to an id, so the id of a node that is not proven to be this one is not handed on.
	if label, is := living[0].Labels[mark]; !is || label != node.ID || node.ID == "" {
		words := alive + ", no label " + mark
		if is {
			words = taskcatalog.Clean(fmt.Sprintf("%s, label %s=%v", alive, mark, label), 128)
		}
		return cluster.Membership{State: cluster.Foreign, Words: words, Prove: "stop its hostler-ray.service, so that the record ends"}
	}
	return cluster.Membership{State: cluster.Member, Words: alive, ID: living[0].ID}
}
