// Package nats relays events to a stream of NATS JetStream, beside the feed that readers ask. The
// main type is Relay. The leading broker runs it. Package nats is the only one that imports the
// client of NATS.
//
// # What is promised
//
//   - At least once: the position in the store moves only after JetStream has acknowledged. An event
//     whose acknowledgement was lost, or whose position was not saved, is published again.
//   - In the order of the stream: an event is published when the one before it is acknowledged.
//   - What is published again has the same Nats-Msg-Id (SOURCE/POSITION, as the source and the id of
//     the CloudEvent), which JetStream drops within its window (two minutes by default). A reader
//     must be idempotent all the same: the window ends, and two brokers may lead for a moment.
//   - Nothing waits for NATS. The relay reads what is in the store, a page at a time. If NATS is
//     away, it tries again, after a minute at most, and says in the store what is wrong.
//   - Nothing is skipped in silence: see outbox.Keeper about what is kept for a relay. What was
//     deleted all the same is counted and told.
//
// An acknowledgement of JetStream comes before its fsync, so a loss of power at all of its servers may
// take acknowledged events. They stay in the outbox as long as its policy says: a relay to a stream
// of another name begins with the oldest of them.
//
// # Security
//
// The connection needs TLS, unless NATS is on the loopback interface. Addresses that a server
// advertises are ignored. The credentials are read at each connection, from a file that others
// cannot read, and are in no error and no log. The subject has the type of the event and no tenant:
// permissions of NATS with wildcards would let it leak.
package nats
