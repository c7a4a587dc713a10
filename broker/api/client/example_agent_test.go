package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// The agent of one node: what is wanted, and what the node reports.
func ExampleClient_WantAgent() {
	published()
	machine("gpu-90")
	ctx, c := context.Background(), connect()
	agent, err := c.WantAgent(ctx, "gpu-90", api.AgentWant{AgentChannel: "pinned", PinnedVersion: "1.5.0", Reason: "as the others"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(agent.Hostname, "wants", agent.DesiredAgentVersion, "and has", agent.ReportedAgentVersion)
	// Output: gpu-90 wants 1.5.0 and has test
}
