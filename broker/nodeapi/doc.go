// Package nodeapi is the broker's side of the agent API: enrolment and renewal,
// tasks and their results, secrets for a task, and packages. All routes stand
// in one table, in routes.go.
//
// # Who may ask what
//
// A node is who its certificate says it is, and the path must say the same.
// Enrolment and packages need no certificate. Every other request passes the
// same checks in the same order, see API.identify:
//
//	the deny list is known      deny_list_unknown (503)
//	certificate, chain, use     certificate_required, certificate_unknown_authority, …
//	not denied                  certificate_denied
//	the node of the path        wrong_node
//	not run out                 certificate_expired, except for renewal
//	not too often               too_many_requests, too_many_renewals
//	the node is a member        node_not_found, node_deleted
//	of the present enrolment    epoch_superseded
//
// A certificate that is no good is refused in the TLS handshake already, in
// VerifyConnection, which sees resumed sessions too. One that ran out gets as
// far as the request, since it may renew. The checks are made again for each
// request: a connection lives longer than what was true when it was made.
//
// The deny list is in memory, read at the start, on a hint, and every two
// seconds. Whoever is denied while it waits is answered at once.
//
// Every refusal is audited. Equal ones from one address are written once a
// minute with their number, so that nobody fills the log by knocking.
//
// # What a waiting node costs
//
// A poll asks the database nothing while it waits, and little when it comes
// in: what the broker must know of a node is in memory from its first request
// on and read again when its certificate changes. Contacts are written in
// batches. HTTP is 1.1: one connection carries one poll, and costs less so.
//
// # Adding a route
//
// One line in the table, one file named after it, its bodies in package wire.
package nodeapi
