// Package maassim plays a MAAS region for tests: its REST API under OAuth 1.0a, its
// own status machine, timing, error codes, JSON shapes and events feed, in version
// 3.4, 3.5 or 3.6. It speaks the wire, so whoever talks to a real region talks to
// it. README.md says what it was held against and where it differs.
//
// Region is an http.Handler; RoundTripper calls it in process, with no network.
// Every call takes the whole region: none sees half of another.
//
// Time is the region's own clock. What MAAS does by itself is written in an agenda
// and done, in the order of its times, when anything next looks at the region:
// there is no goroutine and no sleep. Equal seeds, clocks and calls make equal ids,
// tokens, names and answers. A machine's appointments belong to the process that
// made them (a commissioning, a deployment) and are void once it is in another.
//
// Hardware stands at a BMC address and is a thing apart from MAAS's record of a
// machine: a record may lead to no hardware, to the wrong one, or with a password
// that does not fit, and hardware that boots from the network unknown is enlisted.
//
// A Fault is trouble that waits for its moment. There are four families: a call
// that is not carried out, one that is though the answer says otherwise or is
// lost, a machine that fails where it gets to, and a person who acts behind
// everybody's back. Trouble of the third family is looked for by the code of the
// process itself (hit, strikes), that of the others around each call.
//
// To add an operation, add its row to the table in routes.go and a method of call
// in the file of its noun. To add a kind of trouble, add it to its family in
// faults.go, and ask for it where it strikes.
package maassim
