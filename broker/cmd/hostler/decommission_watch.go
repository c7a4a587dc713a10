package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func decommissionWatchCommand(a *app) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use: "watch ID", Short: "follow a turnover until it has ended or needs a person", Args: exactly("ID"),
		Long: `Follow a turnover, with its stages, until it has ended or needs a person. The exit
status is 0 only if it was completed. Where the site's policy has the node of a
soft reset reimaged, since its agent is silent (reimage_when_silent), that reimage
is named and followed, and the exit status is its own.`,
		Example: "  hostler decommission watch r-019f2c1a7b3k5x7e2q9d4 --timeout 1h",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			return a.watchDecommission(c.Context(), remote, args[0], timeout)
		},
	}
	timeoutFlag(c, &timeout)
	return c
}

// watchDecommission follows a run and shows it when it stops. If a reimage replaces the run, the
// command follows the reimage. An interrupt stops only the watching.
func (a *app) watchDecommission(ctx context.Context, remote *client.Client, id string, timeout time.Duration) error {
	waiting, cancel := within(ctx, timeout)
	defer cancel()
	tree := &stageTree{progress: a.progress()}
	defer tree.clear()
	for {
		d, err := remote.Decommission(waiting, id)
		switch {
		case waiting.Err() != nil && ctx.Err() == nil:
			return timedOut("turnover %s has not ended after %s (it goes on; hostler decommission watch %s)", id, timeout, id)
		case ctx.Err() != nil:
			return broker.Errorf(broker.Internal, "interrupted", "stopped watching turnover %s (it goes on; hostler decommission watch %s, hostler decommission cancel %s)", id, id, id)
		case err != nil:
			return err
		}
		if next := d.FollowedBy; next != "" {
			tree.clear()
			a.note("turnover %s of %s was given up, since its agent is silent: its node is reimaged by %s", id, d.Hostname, next)
			id = next
			continue
		}
		tree.draw(asTree(d), a.now())
		if !d.HandingOver && (d.Ended || strings.HasPrefix(d.Status, "failed_")) {
			tree.clear()
			if err := a.show(d, []string{d.DecommissionID}, func(p *render.Page) { decommissionPage(a, p, d, false) }); err != nil {
				return err
			}
			return decommissionEnd(d.Decommission)
		}
		pause(waiting, tick)
	}
}

// asTree is a turnover in the form that the stage tree draws.
func asTree(d *api.DecommissionDetail) *api.OnboardingDetail {
	return &api.OnboardingDetail{
		Onboarding: api.Onboarding{
			OnboardingID: d.DecommissionID, Hostname: d.Hostname, Status: d.Status, Ended: d.Ended, CurrentStage: d.CurrentStage, CurrentAttempt: d.CurrentAttempt,
			Direction: d.Direction, Waiting: d.Waiting, FailureClass: d.FailureClass, ErrorMessage: d.ErrorMessage, RecommendedNextAction: d.RecommendedNextAction, RequestedAt: d.RequestedAt,
		},
		Stages: d.Stages,
	}
}
