package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func decommissionWatchCommand(a *app) *cobra.Command {
	return a.watchCommand(&cobra.Command{
		Short: "follow a turnover until it ends or needs an operator",
		Long: `Follow a turnover and its stages until it ends or needs an operator. The exit status
is 0 only if the turnover completed. The site's policy may replace a soft reset by a
reimage because the node's agent is silent (reimage_when_silent). The command then
names and follows the reimage, and returns its exit status.`,
		Example: "  hostler decommission watch r-019f2c1a7b3k5x7e2q9d4 --timeout 1h",
	}, (*app).watchDecommission)
}

// watchDecommission follows a run and shows it when it stops. If a reimage replaces the run, the
// command follows the reimage.
func (a *app) watchDecommission(ctx context.Context, remote *client.Client, id string, timeout time.Duration) error {
	return a.watchRun(ctx, id, timeout, watching{thing: "turnover", noun: "decommission", look: a.turnoverLook(remote)})
}

// turnoverLook looks at a turnover for a command that follows it.
func (a *app) turnoverLook(remote *client.Client) func(context.Context, string) (*seenRun, error) {
	return func(ctx context.Context, id string) (*seenRun, error) {
		d, err := remote.Decommission(ctx, id)
		return &seenRun{
			drawing: drawing{d.RunState, d.Hostname, "", d.RequestedAt, d.Stages}, id: d.DecommissionID, answer: d,
			page: func(p *render.Page) { decommissionPage(a, p, d, false) }, end: func() error { return decommissionEnd(d.Decommission) },
			replaced: d.HandingOver, followed: d.FollowedBy,
			why: fmt.Sprintf("turnover %s of %s was given up because the node's agent is silent: %s reimages the node", id, d.Hostname,
				d.FollowedBy),
		}, err
	}
}
