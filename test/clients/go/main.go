// Command client queries a broker with the client that oapi-codegen generates from the broker's
// description.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/hostler/hostler/test/clients/go/api"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	token := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("HOSTLER_TOKEN"))
		return nil
	}
	broker, err := api.NewClientWithResponses(os.Getenv("HOSTLER_URL"), api.WithRequestEditorFn(token))
	if err != nil {
		return err
	}
	nodes, err := broker.ListNodesWithResponse(ctx, &api.ListNodesParams{})
	if err != nil {
		return err
	}
	if nodes.JSON200 == nil {
		return fmt.Errorf("cannot list nodes: %s", nodes.Status())
	}
	for _, n := range nodes.JSON200.Items {
		fmt.Println("node", n.Hostname)
	}
	profile, err := broker.ShowSiteProfileWithResponse(ctx, "dc1", "default")
	if err != nil {
		return err
	}
	if profile.JSON200 == nil {
		return fmt.Errorf("cannot show a profile: %s", profile.Status())
	}
	vlan := "none"
	if id := profile.JSON200.PxeVlanVid; id != nil {
		vlan = fmt.Sprint(*id)
	}
	fmt.Println("vlan", vlan)
	missing, err := broker.ShowNodeWithResponse(ctx, "h9")
	if err != nil {
		return err
	}
	if missing.ApplicationproblemJSON404 == nil {
		return fmt.Errorf("a node that is not there: %s", missing.Status())
	}
	fmt.Println("refused", missing.ApplicationproblemJSON404.Code)
	return nil
}
