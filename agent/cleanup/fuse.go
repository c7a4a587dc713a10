package cleanup

import (
	"slices"

	"github.com/hostler/hostler/agent/machine"
)

// detachFUSE detaches every FUSE that the baseline does not have, anywhere on the machine: a FUSE may
// be dead or never answer, so a cleanup detaches them before it looks at anything.
func (c *cleanup) detachFUSE() error {
	if c.known.Base == nil {
		c.skip("mounts", "/", "the node has no baseline, so the agent cannot tell the node's own FUSE mounts from a tenant's")
		return nil
	}
	return c.detach(func(_, strangers []machine.Mount) []machine.Mount {
		return slices.DeleteFunc(strangers, func(mt machine.Mount) bool { return !mt.Served() })
	})
}
