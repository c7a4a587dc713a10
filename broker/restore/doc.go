// Package restore is what a broker does whose database came out of a backup, until an
// operator releases it.
//
// # What is wrong with such a database
//
// It is true of a moment that has passed. What was denied since lives again: a
// certificate of a node that was retired, the key that a rotation replaced, an
// operator's token that was revoked. What was used is fresh again: enrol tokens. And
// what counts up stands lower than others have seen: epochs of nodes, cursors of runs,
// versions of the trust bundle, positions of events.
//
// # What holds from the first moment on
//
// store.MarkRestored writes it in one transaction before any broker can open the
// database (package backup; after pg_restore, hostler-broker restore --hold):
//
//   - Nothing but probes is handed out, no chain steps, no node is handed to a tenant,
//     and what the leader does by itself waits (package server).
//   - Enrol tokens are void, used or not; operators' tokens are revoked.
//   - Open tasks end outcome_unknown; what a node still says of one is kept beside it.
//     Ids of tasks are never given twice and a node's ledger goes by them, so that
//     nothing is done twice; no counter of tasks can step back.
//   - Runs that had not ended are stopped for a person: a cursor is a memory of what was done,
//     and what was done since is not in it. Each stage looks before it acts, so that
//     retry, resume and rerun find what is there.
//   - The next trust bundle, event and enrolment get numbers that go by the time of the
//     restore: beyond what can have been given out since the backup, also by a broker
//     that was restored from the same one before.
//
// # Who is let in
//
// A certificate from before the restore is good for asking to renew and for nothing
// else, also after the release. That our CA has issued it says that it was good once;
// whether it was denied since, nobody here knows. So the answer is no, unless somebody
// who was there since speaks for it:
//
//	MAAS, while held    the machine is Deployed and has the node's mark. Where a run put
//	                    the mark there that had ended in the backup, the identity of
//	                    the backup's epoch or a newer one is let in; by another run the
//	                    machine was deployed again, and the epoch must be newer
//	an operator         hostler-broker restore --accept NODE --key KEY: the one that has asked last
//	a new enrolment     by a token that was issued since
//
// The epoch is read from the certificate: one beyond the backup's proves that the node
// enrolled again, and the row follows it, all before it is denied, and the node is
// quarantined, since who was on it in between is not on record. One below it is
// superseded, as ever. Of two identities of the same node the newer by epoch, and
// then by issue, is the node's; the other loses what it got. An identity that is let in
// gets a certificate that is on record, and is a member like any other.
//
// A certificate of the lost hour is on nobody's record, and cannot be denied. So what is
// done since the restore to a key, or to the node, holds for it too: a denied key renews
// nothing, a node that was denied, retired or given back lets in nobody from before, and
// an answer can be lost only until the node is heard with it.
//
// What nobody outside remembers comes back all the same: a certificate that was denied
// by itself, on a machine that is still marked and whose node never comes with a newer
// one; a node that was removed while its machine stayed deployed. While held it can only
// be probed, and docs/how-to/backup.md says how to look for it.
//
// # What is compared
//
// Watch looks, in the process that leads, while the database is held: at the machines of
// each site, and at the ledger of each node that is let in. What it finds is listed, one
// by one, and never mended here: nothing in this package deploys, releases, powers or
// tells a node to do anything but to say what it has done.
package restore
