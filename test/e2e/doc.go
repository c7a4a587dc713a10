// Package e2e holds the tests that need a whole machine: a QEMU guest made of Debian packages, with
// systemd, cloud-init and real users. The tests run the built programs as a user would.
//
// The tests carry the build tag e2e; `make e2e` runs them. Most tests share one booted guest, saved
// before and after the installation of the agent's package. A case starts from a snapshot, on that
// guest or its twin, with a broker of its own.
//
// Two cases run at a time, each on its own guest, so a case must not depend on anything of the host
// that another case can change. An enrolment takes most of a minute: work that can run in sequence
// on one node becomes the parts of one case. Only a case about booting boots a guest; while the
// shared guest boots, cases run that do not need it.
package e2e
