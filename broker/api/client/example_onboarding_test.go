package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A machine is planned, then onboarded. The run is followed by its events, or asked for.
func ExampleClient_StartOnboarding() {
	ctx, c := context.Background(), connect()
	if _, err := c.CreateSKU(ctx, client.Document{"id": "h100.8gpu", "gpu_vendor": "nvidia", "gpu_model": "H100", "gpu_count": 8, "nics": []string{"eno8303"}}); err != nil {
		log.Fatal(err)
	}
	machine := api.OnboardingMachine{Hostname: "c01", IPMIIP: "10.20.0.1"}
	plan, err := c.PlanOnboarding(ctx, api.OnboardingBatch{SiteID: "dc1", SKUID: "h100.8gpu", Nodes: []api.OnboardingMachine{machine}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Site, plan.Profile, "begins with", plan.Stages[0].Stage)

	run, err := c.StartOnboarding(ctx, api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: machine, Reason: "new rack"})
	if err != nil {
		log.Fatal(err)
	}
	list, err := c.Onboardings(ctx, client.OnboardingFilter{Hostname: "c01"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list.Items), "run of", list.Items[0].Kind, "for", run.Hostname)

	if _, err := c.ActOnOnboarding(ctx, run.OnboardingID, "cancel", api.RunOrder{Reason: "wrong rack"}); err != nil {
		log.Fatal(err)
	}
	cancelled := errors.New("it is cancelled")
	err = c.Events(ctx, client.EventFilter{After: "0", Subject: "run/" + run.OnboardingID, Follow: true}, func(e api.Event) error {
		if e.Type == "node.onboarding.cancelled" {
			return cancelled
		}
		return nil
	}, nil)
	fmt.Println(err)
	// Output:
	// dc1 default begins with load_site_config
	// 1 run of node.onboarding for c01
	// it is cancelled
}
