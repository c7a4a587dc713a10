// Package sshseed gives a machine what its hardware sync needs over SSH. It is the
// last resort of an onboarding, for a machine that MAAS has deployed, whose agent
// has not come and which does not report its hardware; where there is an agent, a
// task does it. It is also the one place in the broker where a command line exists
// that a shell on another machine takes apart.
//
// # What is sent
//
//   - Files go by SFTP, into a new folder in the deploy user's home that nobody else
//     may enter, under fixed names.
//   - Two command lines, each a constant: one installs the files as root, one has
//     systemd begin. Nothing of a run, a site or a machine is ever part of one, and
//     no secret is: the machine's token is in a file alone.
//
// # Whom it is sent to
//
// The machine's host key is taken on trust once. HostKey asks for it and tells
// nothing: it hangs up when the key is proven, before anybody logs in. Whoever calls
// keeps it, and gives it to Seed, which speaks to a machine with that key and to no
// other. So a broker that dies between the two has either not kept a key or has
// sent nothing yet. It is a key of one deployment: another deployment makes another.
//
// An address that MAAS has of a machine may be another's by now, and every machine of
// the site lets the deploy user in. So the first thing that is read there is what
// cloud-init calls the machine, which is MAAS's id of it: another one gets nothing.
//
// Login is by the site's key for its deploy user, and by nothing else: no password,
// no question, no forwarding. The machine may open no channel and gets no answer to
// its requests.
//
// # What a machine can do to the broker
//
// Each step has a time, after which the connection is closed; algorithms are the
// ones listed; what the machine says is bounded, and is text for people only. Where
// it says too much the connection is closed.
package sshseed
