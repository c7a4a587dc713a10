// Package terminalnode runs inside a guest, as root, and tests terminal sessions as units of the
// real systemd. TestTerminalsAreUnits of package e2e builds this package's test, copies it to the
// guest beside the agent's program, and starts it. The test plays the agent and the relay; no
// broker takes part.
package terminalnode
