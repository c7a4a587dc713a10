package client_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// The secrets of a cluster are stored, and never shown again.
func ExampleClient_SetCluster() {
	ctx, c := context.Background(), connect()
	kept, err := c.SetCluster(ctx, "lab", api.ClusterPut{
		Backend: "slurm", URL: "https://slurm.example:6820", Token: "example", Controller: "ctl.example:6817", JoinAuth: "munge",
		JoinSecret: bytes.Repeat([]byte("k"), 128), Reason: "our lab",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(kept.Name, "at", kept.URL)
	if _, err := c.RemoveCluster(ctx, "lab", "over"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// lab at https://slurm.example:6820
}
