// Package sshseed seeds a machine's hardware sync over SSH. Seeder is the main type. The package is
// the last resort of an onboarding, for a deployed machine without an enrolled agent and without
// hardware reports; where there is an agent, a task does the work.
// No other part of the broker builds a command line for a shell on another machine.
//
// # What is sent
//
//   - Files go by SFTP, into a new folder in the deploy user's home that nobody else may enter,
//     under fixed names.
//   - Two command lines, each a constant: one installs the files as root, one starts the units. A
//     command line never contains a value of a run, a site or a machine, and no secret: the
//     machine's token is in a file alone.
//
// # The receiving machine
//
// The machine's host key is taken on trust once. HostKey asks for the key and discloses nothing: it
// hangs up when the key is proven, before any login. The caller saves the key and gives it to Seed,
// which talks to a machine with this key and to no other. So a broker that dies between the two has
// either not saved a key or has sent nothing yet. The key belongs to one deployment: another
// deployment makes another key.
//
// MAAS's address of a machine may belong to another machine by now, and every machine of
// the site admits the deploy user. So Seed first reads cloud-init's name of the machine, which is
// MAAS's id: another machine gets nothing.
//
// Login is by the site's key for its deploy user, and by nothing else: no password, no question, no
// forwarding. The machine may open no channel and gets no answer to its requests.
//
// # What a machine can do to the broker
//
// Each step has a time limit, after which the connection is closed. Only the listed algorithms are
// used. The machine's output is bounded, and is text for people only; a machine that exceeds the
// bound is disconnected.
package sshseed
