// Package hosttest is what the tests of package host and of the packages above it share: a host in a
// temporary directory (Box, Used), a host alone in namespaces of its own (Jail, Jailed), a host on a
// copy of the system it runs on (System), a systemd and a ledger without a disk, a FUSE whose server
// never answers, and processes of a tenant that try to survive a revoke.
//
// A test binary that imports this package also plays those processes: its init function takes over
// when the binary is started with AttackWord. The package holds no test and judges nothing.
package hosttest
