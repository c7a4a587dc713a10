package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// Runs of all kinds are listed, shown and acted on alike, here a turnover.
func ExampleClient_Runs() {
	machine("gpu-32")
	ctx, c := context.Background(), connect()
	if _, err := c.StartDecommission(ctx, "gpu-32", api.DecommissionStart{Mode: "soft_reset", Reason: "a-43 ended"}); err != nil {
		log.Fatal(err)
	}
	list, err := c.Runs(ctx, client.AnyRunFilter{Node: "gpu-32"})
	if err != nil {
		log.Fatal(err)
	}
	run := list.Items[0]
	fmt.Println(len(list.Items), "run of", run.Kind, "on", run.Subject)
	detail, err := c.Run(ctx, run.RunID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first stage is", detail.Stages[0].Stage)

	if _, err = c.ActOnRun(ctx, run.RunID, "cancel", api.RunOrder{Reason: "the tenant stays"}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 run of node.decommission/soft_reset on gpu-32
	// the first stage is disable_node
}
