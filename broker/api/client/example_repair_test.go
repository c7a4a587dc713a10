package client_test

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A GPU was replaced, and the whole machine later. Its serial number tells both.
func ExampleClient_AddRepairs() {
	ctx, c := context.Background(), connect()
	theBroker().NewNode(&setup, api.NodeCreate{Hostname: "gpu-92", Site: "dc1"}).Settle(&setup)
	theBroker().NewNode(&setup, api.NodeCreate{Hostname: "gpu-93", Site: "dc1"}).Settle(&setup)

	made := must(c.AddRepairs(ctx, api.RepairsAdd{Items: []api.RepairAdd{{
		Node: "gpu-92", Category: "gpu", Action: "replaced", Part: "gpu", OldSerial: "1324022000001", NewSerial: "1324022000009", Ticket: "RMA-4",
	}}}))
	fmt.Println(len(made.Recorded), made.Recorded[0].Action)

	list := must(c.Repairs(ctx, client.RepairFilter{Serial: "1324022000001"}))
	fmt.Println(len(list.Items), list.Items[0].Hostname, list.Items[0].NewSerial)

	link := must(c.ReplaceHost(ctx, api.HostReplace{Old: "gpu-92", New: "gpu-93", Reason: "three repairs in a month"}))
	fmt.Println(link.OldNodeID == list.Items[0].NodeID)
	// Output:
	// 1 replaced
	// 1 gpu-92 1324022000009
	// true
}
