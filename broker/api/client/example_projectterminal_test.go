package client_test

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A project sees the terminals that its members opened, and no session of an operator.
func ExampleClient_ProjectTerminals() {
	ctx, c := context.Background(), connect()
	must(c.CreateOrganisation(ctx, api.OrganisationCreate{Name: "shells"}))
	must(c.CreateProject(ctx, "shells", api.ProjectCreate{Name: "lab"}))

	live := must(c.ProjectTerminals(ctx, "shells/lab", client.ProjectTerminalFilter{Status: "live"}))
	fmt.Println(len(live.Items))

	_, err := c.OpenProjectTerminal(ctx, "shells/lab", "alc-none", api.ProjectTerminalStart{Columns: 80, Rows: 24})
	fmt.Println(client.Code(err))
	// Output:
	// 0
	// allocation_not_found
}
