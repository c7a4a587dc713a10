package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A session of a terminal begins with a ticket, with which AttachTerminal joins it.
func ExampleClient_OpenTerminal() {
	occupied("gpu-70", "a-70", "ann")
	ctx, c := context.Background(), connect()
	ticket, err := c.OpenTerminal(ctx, api.TerminalStart{Node: "gpu-70", AllocationID: "a-70", Columns: 80, Rows: 24, Reason: "a look"})
	if err != nil {
		log.Fatal(err)
	}
	screen, err := c.AttachTerminal(ctx, ticket.Terminal.ID, ticket.Ticket)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = screen.Close() }()

	live, err := c.Terminals(ctx, client.TerminalFilter{Node: "gpu-70", Status: "live"})
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range live.Items {
		fmt.Println(t.Username, "at", t.Hostname, "by", t.OpenedBy)
	}
	closed, err := c.CloseTerminal(ctx, ticket.Terminal.ID, "seen")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ended by", closed.EndRequestedBy)
	// Output:
	// ann at gpu-70 by admin
	// ended by admin
}
