package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A plan begins nothing. It lists the stages, and who is on the node.
func ExampleClient_PlanDecommission() {
	machine("gpu-30")
	plan, err := connect().PlanDecommission(context.Background(), "gpu-30", api.DecommissionStart{Mode: "soft_reset", Reason: "a-42 ended"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Mode, "with", len(plan.Live), "tenants on the node, first", plan.Stages[0].Stage)
	// Output: soft_reset with 0 tenants on the node, first disable_node
}

// A turnover begins; from then on the node owes it and is not handed out. An operator's action
// stops the run.
func ExampleClient_StartDecommission() {
	machine("gpu-31")
	ctx, c := context.Background(), connect()
	if _, err := c.Freeze(ctx, api.FreezePut{Site: "dc1", Reason: "example"}); err != nil { // so that this run stays where it is
		log.Fatal(err)
	}
	once := client.WithIdempotencyKey(ctx, "a-42-out") // asked again, the broker answers the same run
	run, err := c.StartDecommission(once, "gpu-31", api.DecommissionStart{Mode: "soft_reset", Erase: "quick", Reason: "a-42 ended"})
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.StartDecommission(once, "gpu-31", api.DecommissionStart{Mode: "soft_reset", Erase: "quick", Reason: "a-42 ended"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same run:", again.DecommissionID == run.DecommissionID)
	detail, err := c.Decommission(ctx, run.DecommissionID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(detail.Hostname, detail.Mode, detail.Status, "at", detail.CurrentStage)

	list, err := c.Decommissions(ctx, client.DecommissionFilter{Node: "gpu-31"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(list.Items), "run, frozen:", len(list.Frozen) > 0)

	if _, err = c.ActOnDecommission(ctx, run.DecommissionID, "cancel", api.RunOrder{Reason: "the tenant stays"}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Unfreeze(ctx, api.UnfreezePut{FreezePut: api.FreezePut{Site: "dc1", Reason: "example"}}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the same run: true
	// gpu-31 soft_reset pending at disable_node
	// 1 run, frozen: true
}
