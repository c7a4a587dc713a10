package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A release goes to many nodes, wave after wave.
func ExampleClient_StartRollout() {
	published()
	machine("gpu-80")
	machine("gpu-81")
	ctx, c := context.Background(), connect()
	rollout, err := c.StartRollout(ctx, api.RolloutStart{Release: "1.5.0", Selector: "gpu-80,gpu-81", Reason: "newer"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rollout.Release, "to", rollout.Members, "nodes, wave", rollout.Waves[0].Name, "first")

	if _, err := c.ActOnRollout(ctx, rollout.RolloutID, "abort", api.RolloutOrder{Reason: "not today"}); err != nil {
		log.Fatal(err)
	}
	list, err := c.Rollouts(ctx, client.RunFilter{Site: "dc1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list.Items), "rollout at dc1")
	// Output:
	// 1.5.0 to 2 nodes, wave canary first
	// 1 rollout at dc1
}
