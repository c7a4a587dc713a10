package client_test

import (
	"context"
	"fmt"
	"log"
)

// One row a site and SKU: how many nodes and GPUs there are, and what they are used for.
func ExampleClient_Capacity() {
	machine("gpu-71")
	capacity, err := connect().Capacity(context.Background(), "dc1", "")
	if err != nil {
		log.Fatal(err)
	}
	row := capacity.Rows[0]
	fmt.Println(row.Site, row.Nodes.Delivered > 0)
	// Output: dc1 true
}
