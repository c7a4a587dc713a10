// Package identity is who a node is: where it learns of its broker, how it
// becomes a member, and what it keeps of that on disk.
//
// # Where a token comes from
//
// Sources are asked in order and the first that names a broker is taken whole;
// a token is never sent to a broker that another source named:
//
//  1. the config file, with a token file beside it
//  2. the cloud-init seed: the key "hostler" of a #cloud-config
//  3. the kernel command line: hostler.broker=, hostler.ca_sha256=, hostler.token=
//  4. QEMU fw_cfg: opt/io.hostler/broker, …/ca_sha256, …/token
//
// A source that is there and makes no sense stops the search with an error.
//
// # Enrolment
//
// The key is on disk before the request leaves, under the hash of the token it
// is for. An answer that is lost is asked for again with the same token and the
// same key, and the broker gives the same certificate. Only then is identity.json
// written: one file, replaced in one rename, holds name, certificate, broker and
// trust bundle, so that there is no moment at which they belong to different
// enrolments.
//
// A task that the answer carries is not looked at here. It is left beside, for the
// agent to judge before its first poll: hostler-agent enroll is another process
// than the agent. Lost, it costs nothing, as the broker delivers it too.
//
// Beside them is also whether an enrolment still has the end of its first boot before
// it. What the agent does then, it does once for each, and never to a node that
// enrolled with an agent that did not do it.
//
// # Rotation
//
// A node.rotate_identity gives the node another key within its enrolment. The steps,
// each on disk before the next begins:
//
//	key, rotate.json      the request leaves, shown with the certificate in force
//	rotate.json           has the new certificate; a first request with it is made
//	identity.json         names the new key; the old one's file is removed
//
// The broker denies the old certificate at that first request and not before. So
// whoever comes back and finds a new certificate shows that first; refused, it asks
// once more with the old key, and the broker's answer there decides: the same
// certificate again, or that this rotation is over, and then the new key goes. A node
// on the way renews nothing: by that the broker tells that somebody else has its
// old key. rotate.json stays, to say which task the present key came by.
//
// Removing a file is not erasing a disk: a copy may be left in free space, in a
// journal, in a snapshot, or with whoever read it before. What makes an old key
// worthless is that the broker has denied it.
//
// # Rules
//
//   - A private key never leaves the state directory (0700, files 0600).
//   - Whoever changes the state holds its lock: a second process is refused.
//   - A disk that takes no more writes does not end a membership: a renewed
//     certificate is used from memory and written when there is room again.
package identity
