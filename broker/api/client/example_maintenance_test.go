package client_test

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A GPU of a node is to be replaced: nobody new is let in until the work is done.
func ExampleClient_CreateMaintenance() {
	ctx, c := context.Background(), connect()
	theBroker().NewNode(&setup, api.NodeCreate{Hostname: "gpu-94", Site: "dc1"}).Settle(&setup)

	ask := api.MaintenanceCreate{Node: "gpu-94", Category: "gpu", Ticket: "OPS-17", Reason: "GPU 3 has ECC errors"}
	made := must(c.CreateMaintenance(ctx, ask))
	fmt.Println(made.Status, made.Category, made.Tenant)

	_, err := c.CreateMaintenance(ctx, ask)
	fmt.Println(client.Code(err))

	noted := must(c.NoteMaintenance(ctx, made.ID, "the spare part has arrived"))
	fmt.Println(noted.Notes[0].Text)

	list := must(c.Maintenances(ctx, client.MaintenanceFilter{Node: "gpu-94"}))
	fmt.Println(len(list.Items), list.Items[0].Ticket)

	closed := must(c.CloseMaintenance(ctx, made.ID, api.MaintenanceClose{Reason: "GPU replaced", Override: true}))
	fmt.Println(closed.Status, must(c.Maintenance(ctx, made.ID)).ClosedBy != "")
	// Output:
	// open gpu stays
	// maintenance_overlaps
	// the spare part has arrived
	// 1 OPS-17
	// closed true
}
