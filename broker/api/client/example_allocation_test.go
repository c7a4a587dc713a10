package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A project asks for nodes. The broker makes them ready, and the project follows the status.
func ExampleClient_CreateAllocation() {
	ctx, c := context.Background(), connect()
	must(c.CreateSKU(ctx, client.Document{"id": "h100.4gpu", "gpu_count": 4, "gpu_vendor": "nvidia", "gpu_model": "H100"}))
	theBroker().NewNode(&setup, api.NodeCreate{Hostname: "gpu-77", Site: "dc1", SKU: "h100.4gpu"}).Settle(&setup)
	must(c.CreateOrganisation(ctx, api.OrganisationCreate{Name: "vision"}))
	must(c.CreateProject(ctx, "vision", api.ProjectCreate{Name: "training"}))
	must(c.SetQuota(ctx, "vision/training", "h100.4gpu", api.QuotaPut{Nodes: 1, GPUs: 4}))
	ann := must(c.AddProjectMember(ctx, "vision/training", api.MemberAdd{Subject: "ann", Role: "project_member"}))
	key := must(c.AddSSHKey(ctx, ann.ID, api.SSHKeyAdd{
		PublicKey: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+cnUWlRmN2zHEA0YoR45xNpEbnrPRHFRIiTPYr/DGu ann@laptop",
	}))

	ask := api.AllocationCreate{SKU: "h100.4gpu", Nodes: 1, SSHKeyIDs: []string{key.ID}, Labels: map[string]string{"team": "vision"}}
	ctx = client.WithIdempotencyKey(ctx, "job-17") // a repeated request makes no second allocation
	made, err := c.CreateAllocation(ctx, "vision/training", ask)
	if err != nil {
		log.Fatal(err)
	}
	again := must(c.CreateAllocation(ctx, "vision/training", ask))
	fmt.Println(made.Status, made.SKU, made.Nodes, made.Site, again.ID == made.ID)

	list := must(c.Allocations(ctx, "vision/training", client.AllocationFilter{Labels: ask.Labels}))
	fmt.Println(len(list.Items), list.Items[0].ID == made.ID)

	_, err = c.CreateAllocation(context.Background(), "vision/training", ask)
	fmt.Println(client.Code(err))
	// Output:
	// requested h100.4gpu 1 dc1 true
	// 1 true
	// quota_exceeded
}
