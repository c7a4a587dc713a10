// Package records joins the chains of package onboarding to the broker's own parts. Nodes, its main
// type, implements onboarding.Nodes over the store, the secrets, the trust authority and the task
// queue.
//
// # A token that nobody keeps can be rendered again
//
// A run renders its bundle more than once: MAAS's answer may be lost, and a machine that received
// the first bundle can never learn another token. So the tokens of runs are derived instead of
// random: HMAC-SHA-256 of the node's id and of the number of tokens that the node has had, under a
// key that is a secret like the site's own. The store holds the token's hash, as of every token.
// After a token was used, has expired or is void, the next number gives the next token.
//
// # Which machine an agent came from
//
// A node is activated only with the GPUs of its SKU (judge). Where a person ran the install
// command, the disks that MAAS has commissioned must be present as well, because nothing else
// proves that the command ran on the intended machine; such a node gets no machine token.
//
// # Steps of their own
//
// The changes of this package are not part of the save of the step that asks for them. When this
// save is lost, the run asks again and finds the earlier result: by the run's id (nodes), by the
// token's number, or by an idempotency key (tasks).
package records
