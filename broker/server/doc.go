// Package server joins the parts of a broker: store, keys, secrets, task queue, the two listeners,
// and the relay of terminals. Its main type is Server. A test builds the same value as the program.
//
// # The data directory
//
//	broker.lock     held while a broker runs, and its pid; a second broker is refused
//	hostler.db      the store, unless --db names a PostgreSQL
//	keys/           the broker's keys, and the key ring that lists them
//	secrets/        age-encrypted secrets and the key to them
//	admin.token     the first operator token, made on the first start (0600)
//	audit-heads/    the signed heads of the audit log, a file a month
//	relay.key       key of the relay, to tell nodes that old connections are gone
//	client.yaml     read by hostler --config: address, root certificate
//
// # Starting
//
// New takes the ports before it makes anything, then the lock, then keys, store, token and client
// file, each after the parts that it needs. Every step is done whole or not at all, so that after
// any interruption the next start continues from there. Keys are made only if there is no database
// yet: if keys are lost and a database is left, no node would trust a new set.
//
// # Stopping
//
// When its context ends, Run stops taking requests, answers the waiting requests, releases its
// terminal sessions, gives running requests some seconds to finish, and closes the store.
//
// # Strangers
//
// Each listener limits the connections that have shown no token and no certificate yet. The
// operators' listener also limits requests without a token (package strangers; the figures are in
// strangers.go). Each answer must be read within a time limit (package bodies).
//
// # Metrics
//
// The operators' listener serves them at /metrics without a token, because they name no node and no
// site. docs/reference/metrics.md lists them and comes from their declarations.
//
// # Traces
//
// Each operator request is a span. An enqueued task carries the request's trace context to the node,
// and the broker turns the node's reports of its steps into child spans; the agent sends none. The spans
// of an operation are made from its records when an attempt has ended (operationTraces). Spans
// are sent by OTLP over HTTP if OpenTelemetry's own environment variables ask for it:
// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER. The SDK
// reads the others; docs/how-to/monitoring.md lists them.
package server
