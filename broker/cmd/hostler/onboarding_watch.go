package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func onboardingWatchCommand(a *app) *cobra.Command {
	return a.watchCommand(&cobra.Command{
		Short: "follow an onboarding until it ends or needs an operator",
		Long: `Follow an onboarding and its stages until it ends or needs an operator. The exit
status is 0 only if the machine is an active node.`,
		Example: "  hostler onboarding watch r-019f2c1a7b3k5x7e2q9d4 --timeout 1h",
	}, (*app).watchOnboarding)
}

// watchOnboarding follows a run and shows it when it stops.
func (a *app) watchOnboarding(ctx context.Context, remote *client.Client, id string, timeout time.Duration) error {
	return a.watchRun(ctx, id, timeout, watching{
		thing: "onboarding", noun: "onboarding",
		look: func(ctx context.Context, id string) (*seenRun, error) {
			o, err := remote.Onboarding(ctx, id)
			return &seenRun{
				drawing: drawing{o.RunState, o.Hostname, o.LastObserved.MAASStatus, o.RequestedAt, o.Stages}, id: o.OnboardingID, answer: o,
				page: func(p *render.Page) { onboardingPage(a, p, o, false) }, end: func() error { return onboardingEnd(o.Onboarding) },
			}, err
		},
	})
}
