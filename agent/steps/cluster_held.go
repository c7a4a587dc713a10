package steps

import (
	"context"
	"path"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// maxUnitFile bounds a file of a unit.
const maxUnitFile = 64 << 10

// held is a membership that a node has, of whatever cluster.
type held struct {
	file       string // says so; empty: the node has none
	controller string // empty: the file does not say which
	node       string // the node's name there; empty: nothing says it
}

// ownMembership refuses to end a membership of another cluster than the one that the broker has asked. That
// one says absent of a node that it never had, and the work on the node is another's.
func ownMembership(ctx context.Context, s *Step, on clusterNode, is taskcatalog.ClusterMembership) error {
	has, err := on.has(ctx, s)
	refuse := func(why string) error {
		return taskcatalog.Errorf(CodeOtherMembership, "nothing was ended: %s has a membership, and %s", has.file, why)
	}
	name := s.Args.Text("name")
	switch {
	case err != nil || has.file == "":
		return err
	case is.Controller == "":
		return refuse("the broker does not say which controller cluster " + name +
			" has, so it may be another's (set it with hostler cluster set, or update the broker)")
	case has.controller != is.Controller:
		return refuse(has.of() + ", while cluster " + name + " has the controller " + taskcatalog.Clean(is.Controller, 256) +
			" (leave the cluster that the node is in, or correct the controller with hostler cluster set)")
	case has.node != "" && is.Node != "" && has.node != is.Node:
		return refuse("the node is " + taskcatalog.Clean(has.node, 64) + " there, while the broker has asked cluster " + name +
			" about " + taskcatalog.Clean(is.Node, 64) + " (give the node's record its name in the cluster, or leave by hand)")
	}
	return nil
}

// noOther refuses to join while a file has a membership by another controller.
func noOther(ctx context.Context, s *Step, on func(context.Context, *Step) (held, error), c *taskcatalog.ClusterJoin, leave string) error {
	has, err := on(ctx, s)
	if err != nil || has.controller == "" || has.controller == c.Controller {
		return err
	}
	return taskcatalog.Errorf(CodeOtherMembership, "cannot join %s: %s has a membership, and %s (run %s on the node for that cluster)",
		c.Controller, has.file, has.of(), leave)
}

func (h held) of() string {
	if h.controller == "" {
		return "it names no controller"
	}
	return "it is of the controller " + taskcatalog.Clean(h.controller, 256)
}

// heldByUnit reads what a file of a unit starts its program with: the words that come after two options.
func heldByUnit(s *Step, name, controller, node string) (held, error) {
	at := path.Join(unitRoot, name)
	unit, err := s.Host.Machine.ReadStrict(at, maxUnitFile)
	if err != nil {
		return held{}, noLink(absent(err))
	}
	has := held{file: at}
	for line := range strings.Lines(string(unit)) {
		if argv, is := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); is {
			argv = strings.Join(strings.Fields(argv), " ") + " "
			has.controller, has.node = option(argv, controller), option(argv, node)
		}
	}
	return has, nil
}

// option returns the word after an option in arguments that end with a space; empty: it is not there.
func option(argv, name string) string {
	_, rest, _ := strings.Cut(argv, " "+name)
	value, _, _ := strings.Cut(rest, " ")
	return value
}
