// Package play prepares the demos: a broker from nothing, the operator's command line as typed,
// and, for demos with a guest, a site with one machine that becomes a node. Play is its main type.
// A scene that fails ends the play, with the last output of the broker, the guest and its agent.
package play
