// Package terminalnode is what runs inside a guest, as root, to see terminal sessions as units
// of the real systemd: TestTerminalsAreUnits of package e2e builds this package's test, puts
// it there beside the agent's program, and starts it. The test plays the agent and the relay;
// nothing of a broker is asked.
package terminalnode
