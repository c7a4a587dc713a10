// Package nodeapi is the broker's side of the agent API: enrolment and renewal,
// tasks and their results, secrets for a task, terminal sessions that were killed, and
// packages. All routes stand
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
//	not denied                  certificate_denied; for a renewal with what a
//	                            rotation has replaced, identity_conflict
//	the node of the path        wrong_node
//	not run out                 certificate_expired, except for renewal
//	not too often               too_many_requests, too_many_renewals
//	not from before a restore   certificate_expired; a renewal is judged apart, see
//	                            package restore
//	room for another arrival    broker_busy (503, with Retry-After), for a poll alone
//	the node is a member        node_not_found, node_deleted
//	of the present enrolment    epoch_superseded
//
// A certificate that is no good is refused in the TLS handshake already, in
// VerifyConnection, which sees resumed sessions too. One that ran out gets as
// far as the request, since it may renew, and one that a rotation has replaced,
// to be told so. The checks are made again for each
// request: a connection lives longer than what was true when it was made.
//
// The deny list is in memory, read at the start, on a hint, and every two
// seconds. Whoever is denied while it waits is answered at once.
//
// Every refusal is audited. Equal ones from one address are written once a
// minute with their number, so that nobody fills the log by knocking.
//
// # One key, one enrolment
//
// A key enrols once (enrol_key_known), whatever the token: an agent makes a key for
// each token, so one that was certified before is a copy, or a system of before. The
// same token with the same key is answered again until the node was heard, as after a
// lost answer. If the key is from before the node's machine was given back, that is
// told of like a request with its certificate.
//
// # Another key
//
// A node.rotate_identity has the node ask for a certificate for a key of its own
// making: the renew route, with the task's id, shown with the certificate in force.
// Another key is taken for nothing else, and only while the node holds that task's
// lease. The same task and key get the same certificate until the first request
// with it. That request denies every other certificate of the node, in one
// transaction with what it notes, and is when the identity has changed: evidence by
// an earlier key counts for nothing from then on.
//
// # Two holders of one identity
//
// Two things show that a key is in two hands. A renewal with the old key, once a
// certificate for another was made: an agent on the way to a new key renews nothing,
// and has no old one afterwards. And an agent that polls again after another took
// its place: each running agent polls under a random id of its own, and one that was
// started again never bears the old one. A poll counts as one from after its
// successor's only if it came ten seconds later, so that one which was on its way, or
// another broker's clock, shows nothing. Updates and restarts, however often, are new
// ids and no conflict; a machine put back to a snapshot of its memory is one, and is
// told.
//
// Such a node is quarantined and both addresses are told; what it then does is for a
// person. Neither certificate is denied. Nothing here tells which of the two is the
// node: to deny both would let anyone with a copy of the key, such as a tenant, take
// the machine from its operator, and to deny the later one would let him choose. A
// quarantined node serves nobody, while its certificate still lets it be probed,
// turned over, and given another key, which settles the matter. No turnover hands it
// out by what was signed before that. For the same reason a key that was replaced
// quarantines once and not for ever, and one from before the machine was given back is
// told of until a person says that it is known of (machine_released_known).
//
// # What a waiting node costs
//
// A poll asks the database nothing, neither when it comes in nor while it waits:
// what the broker must know of a node is in memory from its first request on, and
// read again every 25 s, for all nodes together. Contacts are written
// in batches. That nothing is open for a node package taskqueue knows.
//
// A poll for which there is nothing is parked (parked.go): its connection is taken
// from the server, whose buffers and goroutine go, and given back to it with the
// next request (lot.go). HTTP is 1.1: one connection carries one poll, and costs
// less so. Polls are held for 45 to 50 s, so that nodes that came together part,
// and end in quarters of a second, many at once: to wake for each costs more than to
// answer it.
//
// # A herd
//
// After a broker's start all its nodes come at once, and none is known. So many are
// looked up at a time, and the polls of the others are told when to come again, spread over as
// long as that takes (arrivals.go). A connection resumes the session of the one
// before it at the same process; after a start each begins anew.
//
// # Adding a route
//
// One line in the table, one file named after it, its bodies in package wire.
package nodeapi
