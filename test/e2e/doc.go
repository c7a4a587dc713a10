// Package e2e holds the tests that need a whole machine: a QEMU guest made of
// Debian packages, with systemd, cloud-init and real users, and the built
// programs as a user would run them.
//
// The tests carry the build tag e2e; `make e2e` runs them. One guest is booted
// for all of them and saved before it enrols; a case starts from the snapshot,
// with a broker of its own. Only what is about booting boots.
package e2e
