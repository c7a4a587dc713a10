package client_test

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/server/servertest"
)

// An operator looks at the plan of an operation, begins it on a node that nobody has, cancels it, and
// waits for its end.
func ExampleClient_RunNodeOperation() {
	ctx, c := context.Background(), connect()
	node := theBroker().NewNode(&setup, api.NodeCreate{Hostname: "gpu-91", Site: "dc1"}, servertest.H100s(8)).Settle(&setup)

	ask := api.PlatformOperationCreate{Operation: "runtime.readiness.verify@v1", Node: node.NodeID, Reason: "new cables"}
	must(c.PlanNodeOperation(ctx, ask))
	group := must(c.PlanNodeOperation(ctx, api.PlatformOperationCreate{Operation: ask.Operation, Nodes: node.NodeID, Canary: 1, Reason: "new cables"}))
	fmt.Println(len(group.Nodes), group.Nodes[0].Batch, len(group.PassedOver))

	made := must(c.RunNodeOperation(ctx, ask))
	fmt.Println(made.Operation.Operation, made.Target, made.Attempt)

	_, err := c.RunNodeOperation(ctx, ask)
	fmt.Println(client.Code(err)) // one at a time

	must(c.CancelOperation(ctx, made.ID, "wrong node"))
	err = c.FollowOperationLog(ctx, client.OperationLogFilter{Operation: made.ID}, func(e client.OperationLogEvent) error {
		if e.End != nil {
			fmt.Println(e.End.Status, e.End.Code)
		}
		return nil
	}, func(error) {})
	fmt.Println(err)
	list := must(c.Operations(ctx, "", client.OperationFilter{}))
	fmt.Println(len(list.Items), list.Items[0].ID == made.ID)
	// Output:
	// 1 1 0
	// runtime.readiness.verify@v1 node 1
	// node_in_run
	// canceled canceled
	// <nil>
	// 1 true
}
