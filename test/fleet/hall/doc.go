// Package hall is a broker as it is built, a process of its own on loopback, and a fleet of
// nodes of it in another: what a benchmark measures, and what `make fleet` shows.
//
// The records of the nodes are put into the store before the broker starts, as operators may
// not ask often enough for ten thousand. All else goes over the wire.
package hall
