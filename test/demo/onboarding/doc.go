// Command onboarding tells what an operator does with a rack of machines at once: a
// batch, a machine that has no boot disk, a hostname that is another machine's, the
// stop button, and the one screen for whoever is on call. The MAAS region is
// simulated, and what it installs is an agent as a process on this machine that may
// look and do nothing else; so it needs neither a guest nor root, and takes some
// minutes, most of which it waits for the broker's next look. It leaves nothing behind.
package main
