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
// On the operators' listener at /metrics, without a token: they name no node and no
// site.
//
//	hostler_build_info{version,store}                     1
//	hostler_http_request_seconds{listener,route,status}   histogram of answers; tasks/wait holds up to 50 s
//	hostler_nodes{status}                                 nodes by status
//	hostler_tasks{status}                                 tasks that have not ended
//	hostler_task_results_total{type,outcome}              results that nodes gave this broker
//	hostler_node_refusals_total{route,code}               requests of nodes that it refused
//	hostler_expires_timestamp_seconds{what}               when the first of what the broker runs on ends
//	hostler_expiring{what}                                how much of it is to be renewed now
//	hostler_waiting_polls                                 polls of nodes that wait at this broker
//	hostler_trust_version                                 of the trust bundle in force
//	hostler_store_statements_total                        statements that this broker gave its database
//	hostler_store_up                                      1 while the store answers and took a small write when that was last tried
//	hostler_silent_nodes{status}                          nodes that are active or offline and not heard for longer than three minutes
//	hostler_silent_sites                                  sites of which no such node is heard
//	hostler_held_back{what}                               what a guard has stopped until a person looks: batches, reconciliation, resolver_profiles
//	hostler_restore_hold                                  1 while the database is a restored one that was not released yet
//	hostler_frozen                                        1 while a freeze of all sites stands
//	hostler_frozen_sites                                  sites with a freeze of their own
//	hostler_unreachable_sites                             sites whose MAAS or secrets do not answer
//	hostler_maas_keys_refused                             sites whose MAAS did not take their key when it was last asked
//	hostler_maas_keys_checked_timestamp_seconds           when it was asked, where that was the longest ago
//	hostler_runs{kind,status,class}                       runs that have not ended; by failure class where they have stopped
//	hostler_outbox_events                                 events that are not in the feed yet
//	hostler_outbox_lag_seconds                            how long the oldest of them has waited
//	hostler_terminal_sessions                             terminal sessions that this broker's relay has
//	hostler_terminal_recorded_bytes_total                 bytes of recordings that this broker has kept
//	hostler_terminal_recording_failures_total             blocks of recordings that it could not keep at once
//	hostler_turnover_stage_seconds{mode,stage}            mean of a stage in a turnover, of the last seven days
//	hostler_turnover_lost_gpu_hours                       GPU-hours that turnovers took of the last seven days
//	hostler_turnover_open                                 nodes that are out because of a turnover
//	hostler_turnover_slowest_seconds{stage,class}         what the slowest tenth of these days was spent on most
//
// and those of the Go runtime and the process.
//
// # Traces
//
// Each operator request is a span. An enqueued task carries the request's trace context to the node,
// and the broker turns the node's reports of its steps into child spans; the agent sends none. Spans
// are sent by OTLP over HTTP if OpenTelemetry's own environment variables ask for it:
// OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER. The SDK
// reads the others; docs/how-to/monitoring.md lists them.
package server
