// Package client speaks the operator API: one method per route, with the types of broker/api as
// arguments and results. Every failure is a *broker.Error, and Code returns its code.
//
//	c, err := client.FromFile("client.yaml") // written by hostler login
//	node, err := c.Node(ctx, "gpu-07")       // an id, a hostname or site/hostname
//	if err == nil && node.Handout.MayBeHandedOut {
//		run, err = c.StartDecommission(ctx, node.ID, api.DecommissionStart{Mode: "reimage", Reason: "…"})
//	} else if client.Code(err) == "node_not_found" {
//
// Each noun has examples that run, in example_*_test.go.
//
// # Rules
//
//   - TLS 1.3 to the pinned root and nothing else. A redirect is not followed:
//     the bearer token goes to the broker that the client file names.
//   - Only a request that may safely be made twice is made again after a lost
//     connection or a 429, 502, 503 or 504: a GET, or an enqueue that carries
//     an idempotency key.
//   - What comes back is bounded, and text in it is not trusted: an error's
//     words are cleaned here, everything else where it is shown.
//   - A field that this version does not know is passed over, so that a newer
//     broker can be spoken to.
package client
