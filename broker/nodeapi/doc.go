// Package nodeapi is the broker's side of the agent API: enrolment and renewal, tasks and their
// results, secrets for a task, terminal sessions that were killed, and packages. Its main type is
// API. All routes stand in one table, in routes.go.
//
// # Who may ask what
//
// A node's certificate says which node it is, and the path must name the same node. Enrolment and
// packages need no certificate. Every other request passes the same checks in the same order, see
// API.identify:
//
//	the deny list is known      deny_list_unknown (503)
//	certificate, chain, use     certificate_required, certificate_unknown_authority, …
//	not denied                  certificate_denied; for a renewal after a
//	                            rotation, identity_conflict
//	the node of the path        wrong_node
//	not expired                 certificate_expired, except for renewal
//	not too often               too_many_requests, too_many_renewals
//	not from before a restore   certificate_expired; a renewal is judged apart, see
//	                            package restore
//	room for another arrival    broker_busy (503, with Retry-After), for a poll alone
//	the node is a member        node_not_found, node_deleted
//	of the present enrolment    epoch_superseded
//
// An invalid certificate is refused in the TLS handshake already, in VerifyConnection, which sees
// resumed sessions too. An expired certificate gets as far as the request, because it may renew. A
// certificate replaced by a rotation gets as far as the request to receive the refusal. The checks
// are repeated for each request, because a connection outlives the facts at its beginning.
//
// The deny list is in memory, read at the start, on a hint, and every two seconds. A waiting poll
// is answered at once when its certificate is denied.
//
// Every refusal is audited. Equal refusals of one node, or of strangers at one address, are written
// once a minute with their number, so that repeated requests cannot fill the log.
//
// # One key, one enrolment
//
// A key enrols once (enrol_key_known), whatever the token. An agent makes a key for each token, so
// a key that was certified before is a copy, or belongs to a previous system. The same token with
// the same key is answered again until the node was heard, as after a lost answer. A key from
// before the node's machine was given back is reported like a request with its certificate.
//
// # Another key
//
// A node.rotate_identity task makes the node ask for a certificate for a key of its own making: by
// the renew route, with the task's id, shown with the certificate in force. Another key is accepted
// for no other purpose, and only while the node holds that task's lease. The same task and key get
// the same certificate until the first request with that certificate. The first request changes the
// identity: in one transaction with its records it denies every other certificate of the node.
// Evidence signed by an earlier key counts for nothing from then on.
//
// # Two holders of one identity
//
// Two observations show that two parties hold a key. The first is a renewal with the old key after
// a certificate for another key was made: an agent on the way to a new key renews nothing, and has
// no old key afterwards. The second is an agent that polls again after another took its place: each
// running agent polls under a random id of its own, and a restarted agent never reuses the old id.
// A poll counts as later than its successor's only if it came ten seconds later, so that a delayed
// poll, or another broker's clock, proves nothing. Updates and restarts, however often, bring new
// ids and no conflict. A machine put back to a snapshot of its memory is a conflict, and is
// reported.
//
// Such a node is quarantined and both addresses are reported; a person decides what follows.
// Neither certificate is denied, because the broker cannot tell which of the two is the node. To
// deny both would let anyone with a copy of the key, such as a tenant, take the machine from its
// operator. To deny the later one would let the tenant choose. A quarantined node serves nobody.
// Its certificate still allows a probe, a turnover, and a new key, which settles the matter. No
// turnover hands the node out on evidence signed before the new key. For the same reason a replaced
// key quarantines once and not forever. A key from before the machine was given back is reported
// until a person confirms that the key is known (machine_released_known).
//
// # The cost of a waiting node
//
// A poll asks the database nothing, neither on arrival nor while it waits. The broker's knowledge
// of a node is in memory from the node's first request on, and is read again every 25 s, for all
// nodes together. Contacts are written in batches. Package taskqueue knows which nodes have no open
// work.
//
// A poll without work is parked (parked.go): its connection is taken from the server, whose buffers
// and goroutine go away, and returns to the server with the next request (idleconns.go). The
// protocol is HTTP 1.1: one connection carries one poll, and costs less that way. Polls are held
// for 45 to 50 s, so that nodes that came together drift apart. Polls end in steps of a quarter of
// a second, many at once, because a wakeup for each poll costs more than its answer.
//
// # A herd
//
// After a broker's start all its nodes come at once, and none is known. The broker looks up a
// limited number at a time. The polls of the other nodes are told when to come again, spread over
// the time that the lookups take (arrivals.go). A connection resumes the session of the connection
// before it at the same process; after a start each connection begins a new session.
//
// # Adding a route
//
// One line in the table, one file named after it, its bodies in package wire.
package nodeapi
