package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api/client"
)

// Drift is a difference between a node and its machine in MAAS.
func ExampleClient_Drifts() {
	ctx, c := context.Background(), connect()
	drifts, err := c.Drifts(ctx, client.DriftFilter{Site: "dc1"})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range drifts.Items {
		fmt.Println(d.Hostname, d.Rule, d.Severity)
	}
	fmt.Println(len(drifts.Items), "nodes drift")
	// Output: 0 nodes drift
}
