package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api/client"
)

// A program begins with the client.yaml that hostler login wrote.
func Example() {
	ctx := context.Background()
	c, err := client.FromFile(clientYAML()) // such as /etc/allocator/client.yaml
	if err != nil {
		log.Fatal(err)
	}
	me, err := c.Whoami(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(me.Name, me.Role)
	// Output: admin platform_admin
}

// A program decides by the code of a failure. Codes are stable, texts are not.
func ExampleCode() {
	_, err := connect().Node(context.Background(), "gpu-99")
	switch client.Code(err) {
	case "":
		log.Fatal(err)
	case "node_not_found":
		fmt.Println("no such node:", err)
	case "broker_unreachable":
		fmt.Println("try again later:", err)
	}
	// Output: no such node: there is no node "gpu-99" (see hostler node list)
}

// The system at a glance: first what needs attention, then counts.
func ExampleClient_Status() {
	status, err := connect().Status(context.Background(), "dc1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Site, "on", status.Store, "with", len(status.Holds), "holds")
	// Output: dc1 on sqlite with 0 holds
}
