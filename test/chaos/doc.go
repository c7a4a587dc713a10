// Package chaos runs three brokers, their PostgreSQL and half a thousand nodes through minutes of
// faults, and afterwards checks every promise. `make chaos` runs it.
//
// The world consists of network namespaces that end with the test: one per broker, one for
// PostgreSQL, and the test's own namespace with the nodes (package fleet), operators, MAAS (package
// maassim), Vault and a TCP load balancer. Brokers are killed, stopped, paused, cut off from the
// database or from everybody, and given a wrong clock. The database is killed and restarted.
// Connections break.
//
// The checks compare the records of nodes, operators and MAAS with the brokers' answers:
//
//   - each task whose acceptance an operator saw begins at most once at its node, and ends once, with
//     the end that its node was told;
//   - the audit log has a row of acceptance for each such task, and all seals fit;
//   - each completed onboarding has deployed its machine once, and the machine's agent serves.
//
// No code here is in a shipped program; the tests bear the tag chaos.
package chaos
