// Package identity is the node's identity: how the node finds its broker, becomes a member, and
// keeps its membership on disk. Its main types are State (the state directory) and Member. The
// package does no networking: callers pass functions that send the requests.
//
// # Where a token comes from
//
// Sources are asked in order, and the first that names a broker is used as a whole; a token is
// never sent to a broker named by another source:
//
//  1. the config file, with a token file beside it
//  2. the cloud-init seed: the key "hostler" of a #cloud-config
//  3. the kernel command line: hostler.broker=, hostler.ca_sha256=, hostler.token=
//  4. QEMU fw_cfg: opt/io.hostler/broker, …/ca_sha256, …/token
//
// An invalid source stops the search with an error.
//
// # Enrolment
//
// The key is on disk before the request is sent, recorded under the hash of its token. After a lost
// answer the same token and the same key are sent again, and the broker returns the same
// certificate. Only then is identity.json written: a single file, replaced in a single rename,
// holds name, certificate, broker and trust bundle, so that they always belong to the same
// enrolment.
//
// A task carried by the answer is not evaluated here. It is stored for the agent, which judges it
// before its first poll; hostler-agent enroll is a separate process. Losing the task does no harm,
// because the broker delivers it as well.
//
// The state also records whether the end of an enrolment's first boot is still due. The agent acts
// on it once per enrolment, and never on a node that enrolled with an older agent without this
// record.
//
// # Rotation
//
// A node.rotate_identity gives the node another key within its enrolment. Each step is on disk
// before the next begins:
//
//	key, rotate.json      the request is sent with the certificate in force
//	rotate.json           has the new certificate; a first request with it is made
//	identity.json         names the new key; the old key's file is removed
//
// The broker denies the old certificate at this first request, and not before. After a crash with a
// new certificate on disk, the node therefore shows the new certificate first. If it is refused,
// the node asks again with the old key, and this answer decides: either the same certificate again,
// or the rotation is over and the new key is dropped. A node does not renew during a rotation: a
// renewal by the old key thus tells the broker that somebody else has the old key. rotate.json
// stays, to record which task the present key came from.
//
// Removing a file does not erase the disk: a copy may be left in free space, in a journal, in a
// snapshot, or with an earlier reader. The old key is worthless because the broker has denied its
// certificate.
//
// # Rules
//
//   - A private key never leaves the state directory (0700, files 0600).
//   - A process that changes the state holds its lock: a second process is refused.
//   - A full disk does not end a membership: a renewed certificate is used from
//     memory and written when there is room again.
package identity
