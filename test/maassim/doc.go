// Package maassim simulates a MAAS region for tests: the REST API under OAuth 1.0a, with MAAS's own
// status machine, timing, error codes, JSON shapes and events feed, in version 3.4, 3.5 or 3.6. The
// simulator speaks the wire protocol, so any client of a real region works with it. README.md lists
// the records it is checked against and the known differences. The simulator installs no system
// itself: a Guest may stand in for a machine's installed system.
//
// Region is the main type and an http.Handler; RoundTripper calls a region in process, without a
// network. Every call holds the region's lock: no call sees half of another call.
//
// Time is the region's own clock. MAAS's own actions are events in an agenda. The next call to the
// region runs all due events in the order of their times: there is no goroutine and no sleep. Equal
// seeds, clocks and calls make equal ids, tokens, names and answers. A machine's events belong to
// the process that scheduled them (a commissioning, a deployment) and are void once the machine is
// in another process.
//
// Hardware stands at a BMC address and is separate from MAAS's record of a machine. A record may
// lead to no hardware, to the wrong hardware, or have a wrong password. Unknown hardware that boots
// from the network is enlisted.
//
// A Fault is trouble that waits for its moment. There are four families: a call that is not carried
// out; a call that is carried out although the answer is an error or lost; a machine that fails at
// some point of a process; and a person who acts by hand. The code of each process checks for
// faults of the third family (hit, strikes); the code around each call checks for the others.
//
// To add an operation, add its row to the table in routes.go and a method of call in the file of
// its noun. To add a kind of fault, add it to its family in faults.go, and check for it where it
// strikes.
package maassim
