// Package e2e holds the tests that need a whole machine: a QEMU guest made of
// Debian packages, with systemd, cloud-init and real users, and the built
// programs as a user would run them.
//
// The tests carry the build tag e2e; `make e2e` runs them. One guest is booted for
// most of them, and saved before and after the agent's package is put on it; a case
// starts from a snapshot, on that guest or its twin, with a broker of its own. Two
// cases run at a time, each with its guest, so a case must not count on anything of
// the host's that another can change. To enrol takes most of a minute: what can go one
// after the other on one node is the parts of one case. Only what is about booting
// boots, and while the shared guest does, cases run that need none of it.
package e2e
