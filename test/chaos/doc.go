// Package chaos has three brokers, their PostgreSQL and half a thousand nodes go through
// minutes of faults, and judges afterwards whether what was promised was kept. `make chaos`
// runs it.
//
// The world is made of network namespaces of the test's own, which end with it: one for each
// broker, one for PostgreSQL, and the one in which the test itself runs with the nodes (package
// fleet), operators, MAAS (package maassim), Vault and a TCP load balancer. Brokers are
// killed, stopped, paused, cut off from the database, from everybody, given a wrong clock; the
// database is killed and started again; connections break.
//
// What is judged is what nodes, operators and MAAS saw, held against what the brokers say:
//
//   - each task that an operator was told is accepted is begun at most once by its node, has
//     one end, and the one that its node was told;
//   - of each the audit log has the row of its acceptance, and all seals fit;
//   - each onboarding that is completed has deployed its machine once, and its agent serves.
//
// Nothing here is in a program that is shipped; the tests bear the tag chaos.
package chaos
