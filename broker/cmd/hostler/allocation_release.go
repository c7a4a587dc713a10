package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func allocationWatchCommand(a *app) *cobra.Command {
	var project string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch ID", Short: "follow an allocation until it needs somebody", Args: exactly("ID"),
		Long: `Follow an allocation until it is active, released, failed or release_failed: until
its status no longer changes by itself. The exit status is 0 if it is active or
released.`,
		Example: "  hostler allocation watch alc-019c4e6a2f1k7m2q4s6t8w --timeout 1h",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			return a.watchAllocation(c.Context(), remote, project, args[0], timeout)
		},
	}
	allocationProjectFlag(c, &project)
	timeoutFlag(c, &timeout)
	return c
}

// watchAllocation follows an allocation and shows it when its status no longer changes by itself.
func (a *app) watchAllocation(ctx context.Context, remote *client.Client, project, id string, timeout time.Duration) error {
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	begun, progress := a.now(), a.progress()
	defer progress.done()
	for {
		v, err := allocationOf(waiting, remote, project, id)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return timedOut("allocation %s still changes after %s (it continues: hostler allocation watch %s)", id, timeout, id)
		case ctx.Err() != nil:
			return broker.Errorf(broker.Internal, "interrupted", "stopped watching allocation %s (it continues: hostler allocation watch %s)", id, id)
		case err != nil:
			return err
		}
		switch broker.AllocationStatus(v.Status) {
		case broker.AllocationRequested, broker.AllocationProvisioning, broker.AllocationReleasing:
			text := id + "  " + v.Status
			if progress.live {
				text = render.Span(a.now().Sub(begun)) + "  " + text
			}
			progress.say(v.Status, text)
			pause(waiting, tick)
			continue
		}
		progress.done()
		if err := a.showAllocation(v); err != nil || v.Message == "" {
			return err
		}
		return broker.Errorf(broker.Internal, v.Code, "allocation %s is %s: %s", id, v.Status, v.Message)
	}
}

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
nodes are cleaned. It needs a platform_admin; the reason is in the audit log.`,
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
