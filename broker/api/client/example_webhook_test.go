package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// A project registers an endpoint for its events. One in the broker's own network is refused.
func ExampleClient_CreateWebhook() {
	ctx, c := context.Background(), connect()
	if _, err := c.CreateOrganisation(ctx, api.OrganisationCreate{Name: "hooked", Reason: "contract 18"}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.CreateProject(ctx, "hooked", api.ProjectCreate{Name: "hooks"}); err != nil {
		log.Fatal(err)
	}
	_, err := c.CreateWebhook(ctx, "hooked/hooks", api.WebhookCreate{URL: "https://127.0.0.1/hostler"})
	fmt.Println(err)
	all, err := c.Webhooks(ctx, "hooked/hooks")
	fmt.Println(len(all), err)
	// Output:
	// cannot send to 127.0.0.1: it has no address that webhooks may reach (use a name with public addresses alone; a platform admin may allow further networks in the broker's config)
	// 0 <nil>
}
