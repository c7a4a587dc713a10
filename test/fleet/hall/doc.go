// Package hall is the built broker, a process of its own on loopback, and a fleet of its nodes in
// another process, for benchmarks and `make fleet`. Hall is the main type.
//
// The nodes' records are put into the store before the broker starts, because the rate limit of
// operators is too low for ten thousand. Everything else goes over the wire.
package hall
