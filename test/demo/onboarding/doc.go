// Command onboarding shows an operator's work with a rack of machines: a batch, a machine without a
// boot disk, a hostname that another machine already has, the stop button, and the status screen
// for the person on call. The MAAS region is simulated, and the system that it installs is an agent
// that runs as a process on this machine with read-only permission. So the demo needs neither a
// guest nor root. It takes four minutes on a busy machine, half of them for the agents' first looks
// at this machine, and leaves nothing behind.
package main
