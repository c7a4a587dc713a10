package main

import (
	"time"

	"github.com/spf13/cobra"
)

func allocationReleaseCommand(a *app) *cobra.Command {
	var project, reason string
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "release ID", Short: "release an allocation, or try again to release it", Args: exactly("ID"),
		Long: `Release an allocation: its users and sessions end, and its nodes are cleaned. Nothing on
them stays. An allocation that is release_failed is tried again. One that is being
released, or was, stays as it is.`,
		Example: "  hostler allocation release alc-019c4e6a2f1k7m2q4s6t8w --yes\n" +
			"  hostler allocation release alc-019c4e6a2f1k7m2q4s6t8w --project acme/lab --yes --wait",
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.confirm(c, "release allocation %s, and lose all that is on its nodes?", args[0]); err != nil {
				return err
			}
			remote, project, err := a.connectTo(c.Context(), project, args[0])
			if err != nil {
				return err
			}
			v, err := remote.ReleaseAllocation(c.Context(), project, args[0], reason)
			if err != nil {
				return err
			}
			if wait {
				return a.watchAllocation(c.Context(), remote, project, v.ID, timeout)
			}
			return a.showAllocation(tenantsAllocation(v))
		},
	}
	allocationProjectFlag(c, &project)
	c.Flags().BoolVar(&wait, "wait", false, "wait until the allocation is released, or the release has failed")
	timeoutFlag(c, &timeout)
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func allocationForceReleaseCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "force-release ID --reason R", Short: "release an allocation of any project, as the platform", Args: exactly("ID"),
		Long: `Release an allocation of any project. The tenant's users and sessions end, and the
nodes are cleaned. It goes on without the operation that the SKU names for the end, if
that does not end well. It needs a platform_admin; the reason is in the audit log.`,
		Example: "  hostler allocation force-release alc-019c4e6a2f1k7m2q4s6t8w --reason 'contract 17 ended' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "release allocation %s against its tenant's will?", args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			v, err := remote.ForceReleaseAllocation(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.showAllocation(platformsAllocation(v))
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}
