package cleanup

import (
	"context"
	"slices"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// namespaces removes the names of network namespaces that the baseline does not have.
func (c *cleanup) namespaces(context.Context) error {
	if c.known.Base == nil {
		c.skip("namespaces", "/run/netns",
			"the node has no baseline, so the agent cannot tell the node's own network namespaces from a tenant's")
		return nil
	}
	names, err := c.m.NetNamespaces()
	if err != nil {
		return err
	}
	host, err := c.m.NetNS(1)
	if err != nil {
		return err
	}
	mounts, err := c.m.Mounts()
	if err != nil {
		return err
	}
	for _, mt := range mounts {
		switch {
		case mt.Type == "nsfs" && mt.Root == host: // another name of the host's own namespace
			names = slices.DeleteFunc(names, func(n string) bool { return n == mt.Point })
		case mt.Type == "nsfs" && !slices.Contains(names, mt.Point):
			names = append(names, mt.Point)
		}
	}
	for _, name := range names {
		if c.known.Object("netns/" + name) {
			continue
		}
		if err := c.m.RemoveNetNamespace(name); err != nil {
			c.failed("namespaces", name, err)
			continue
		}
		c.dispose("namespaces", name, taskcatalog.ActionRemoved, machine.Tally{}, "")
	}
	return nil
}
