// Package webhook sends the events of a project to endpoints that the project has registered. The
// main types are Deliverer, which the leading broker runs, Sender, which sends one request, and Guard,
// which decides what a request may reach.
//
// # What is promised
//
//   - An endpoint gets what the project's feed has, from the registration on: the same events with
//     the same ids.
//   - At least once: the position in the store moves only after the endpoint has answered 200 to 299.
//     An event whose answer was lost, or whose position was not saved, is sent again, with the same
//     webhook-id.
//   - In order: an event is sent when the endpoint has taken the one before it.
//   - Tries end. A failed try is repeated after 5 seconds, then after twice as long each time, up to
//     an hour. An event that was not taken for a day, or an endpoint that answers 410, disables the
//     webhook. A person enables it again, and it goes on with the first event that it lacks.
//   - Nothing waits for an endpoint. A request has ten seconds. A broker has at most 32 requests under
//     way, 4 of one organisation, 2 of one project, one of one webhook. Organisations have their turn
//     one after another.
//   - No event is kept for an endpoint. An endpoint that lacks events that were deleted goes on with
//     the oldest that is kept, and the webhook says so.
//
// # Security
//
// A project names an endpoint, and the broker stands in the management network. So the broker is
// made to send to nothing but public addresses:
//
//   - The name is resolved at each connection, and each of its addresses is checked. Control checks
//     the address of the connection once more.
//   - Loopback, link-local, private, shared (CGNAT), multicast, unspecified, reserved and
//     documentation addresses are refused, and those that stand for others: IPv4-mapped, NAT64, 6to4,
//     Teredo. So is each network in which the broker itself has an address. The operator may allow
//     networks, and refuse public ones.
//   - A redirect is not followed. The answer's body is not read, and its head is bounded.
//   - TLS 1.2 or later with a certificate that verifies. No proxy, no credentials in the URL.
//   - A refusal says the same whether a name is unknown or has a private address, and no text has an
//     address or a word of the other side.
//
// # Signatures
//
// A request is signed as Standard Webhooks has it: HMAC-SHA256 of ID.TIMESTAMP.BODY with the
// webhook's secret. The secret is shown once, and is in package secrets, never in the database. For a
// day after a rotation a request has two signatures.
package webhook
