package client_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// Nodes are reserved for a project for a month: no other project is given them.
func ExampleClient_CreateReservation() {
	ctx, c := context.Background(), connect()
	must(c.CreateSKU(ctx, client.Document{"id": "h100.2gpu", "gpu_count": 2, "gpu_vendor": "nvidia", "gpu_model": "H100"}))
	theBroker().NewNode(&setup, api.NodeCreate{Hostname: "gpu-78", Site: "dc1", SKU: "h100.2gpu"}).Settle(&setup)
	must(c.CreateOrganisation(ctx, api.OrganisationCreate{Name: "speech"}))
	must(c.CreateProject(ctx, "speech", api.ProjectCreate{Name: "batch"}))

	ask := api.ReservationCreate{
		Project: "speech/batch", SKU: "h100.2gpu", Nodes: 1, To: time.Now().Add(30 * 24 * time.Hour), Reason: "contract 17",
	}
	made := must(c.CreateReservation(ctx, ask))
	fmt.Println(made.Status, made.SKU, made.Nodes)

	_, err := c.CreateReservation(ctx, ask)
	fmt.Println(client.Code(err)) // there is one node

	list := must(c.ProjectReservations(ctx, "speech/batch", client.ReservationFilter{}))
	fmt.Println(len(list.Items), list.Items[0].ID == made.ID)

	ended := must(c.EndReservation(ctx, made.ID, "contract 17 ended"))
	fmt.Println(ended.Status)
	// Output:
	// in_force h100.2gpu 1
	// reservation_overbooked
	// 1 true
	// ended
}
