package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// An allocator follows the nodes' changes of status. Events goes on after the last event when the
// connection breaks; a program that was restarted goes on after the last id that it kept.
func ExampleClient_Events() {
	machine("gpu-40")
	ctx, c := context.Background(), connect()
	node, err := c.Node(ctx, "gpu-40")
	if err != nil {
		log.Fatal(err)
	}
	enough := errors.New("enough")
	last := "0" // from the oldest event; "" means from now on
	err = c.Events(ctx, client.EventFilter{After: last, Types: []string{"node.status.changed"}, Subject: "node/" + node.ID, Follow: true}, func(e api.Event) error {
		last = e.ID
		var change struct{ From, To string }
		if err := json.Unmarshal(e.Data, &change); err != nil {
			return err
		}
		fmt.Printf("%q to %q\n", change.From, change.To)
		if change.To == "active" {
			return enough
		}
		return nil
	}, nil)
	fmt.Println(err)
	// Output:
	// "" to "bootstrap_issued"
	// "bootstrap_issued" to "enrolling"
	// "enrolling" to "active"
	// enough
}
