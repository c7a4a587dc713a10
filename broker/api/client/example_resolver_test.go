package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hostler/hostler/broker/api"
)

// A set of resolver profiles is kept at the broker, then wanted for nodes.
func ExampleClient_PushResolverSet() {
	machine("gpu-95")
	ctx, c := context.Background(), connect()
	set, err := c.PushResolverSet(ctx, api.ResolverPush{Version: "2026-11-21", Profiles: profileSet()})
	if err != nil {
		log.Fatal(err)
	}
	want, err := c.WantResolverSet(ctx, api.ResolverWantPut{Selector: "gpu-95", Version: set.Version, Reason: "new driver"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(want.Version, "for", want.Nodes, "node, confirmed by", want.Confirmed)

	why, err := c.ExplainResolver(ctx, "gpu-95", "gpu.scrub.overwrite")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(why.Hostname, why.Step, why.Code) // the node has not got the set yet
	// Output:
	// 2026-11-21 for 1 node, confirmed by 0
	// gpu-95 gpu.scrub.overwrite profile_missing
}
