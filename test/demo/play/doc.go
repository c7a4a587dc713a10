// Package play is the stage of the demos: a broker from nothing, the operator's
// command line as it is typed, and, for those with a guest, a site with one machine
// that becomes a node. A scene that fails ends the play, with what the broker, the
// guest and its agent said last.
package play
