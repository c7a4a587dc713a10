// Package records joins the chains of package onboarding to the broker's own parts. Nodes
// is onboarding.Nodes over the store, the secrets, the trust authority and the task queue.
//
// # A token that nobody keeps can be rendered again
//
// A run renders its bundle more than once: MAAS's answer may be lost, and a machine
// that took the first bundle can never learn another token. So the tokens of runs
// are no random numbers but worked out: HMAC-SHA-256 of the node's id and of how
// many tokens it has had, under a key that is a secret like the site's own. The
// store has the hash, as of every token. One that was used, has expired or is void
// is followed by the next.
//
// # Which machine an agent came from
//
// A node is let in with the GPUs of its SKU (judge). Where a person ran the install
// command, the disks that MAAS has commissioned must be there as well, for nothing
// else says that it was run where it was meant to be; and such a node gets no
// machine's token.
//
// # Steps of their own
//
// What is done here is not part of the save of the step that asks for it: a run
// asks again when that save is lost, and finds what is there, by its own id
// (nodes), by the token's number, or by an idempotency key (tasks).
package records
