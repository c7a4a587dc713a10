package client_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
)

// A definition is pushed as a draft, read, and made active by the digest of what was read.
func ExampleClient_PushOperationDefinition() {
	ctx, c := context.Background(), connect()
	draft := must(c.PushOperationDefinition(ctx, api.OperationDefinitionPush{File: "check.yaml", Text: `
operation: gpu.check
version: v1
summary: look at the GPUs of a node
backend_type: node_agent
safety: forced
targets: [node]
deadline_seconds: 300
steps:
  - {id: gpus, kind: gpu.runtime.check, timeout_seconds: 120}
`}))
	fmt.Println(draft.ID, draft.Status)
	active := must(c.ActivateOperationDefinition(ctx, draft.ID, draft.Digest, "read by bob"))
	fmt.Println(active.Status, len(must(c.OperationDefinitions(ctx, "gpu.check", "active")).Items))

	_, err := c.RetireOperationDefinition(ctx, draft.ID, "nobody needs it")
	fmt.Println(client.Code(err)) // it is not deprecated
	must(c.DeprecateOperationDefinition(ctx, draft.ID, "nobody needs it"))
	must(c.RetireOperationDefinition(ctx, draft.ID, "nobody needs it"))
	kept := must(c.OperationDefinition(ctx, draft.ID))
	fmt.Println(kept.Status, strings.Contains(string(kept.Definition), "gpu.runtime.check"))
	// Output:
	// gpu.check@v1 draft
	// active 1
	// transition_refused
	// retired true
}
