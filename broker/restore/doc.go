// Package restore limits a broker whose database came from a backup, until an operator releases it.
// Watch, its main type, compares the restored database with machines and nodes. The package repairs
// nothing.
//
// # What is wrong with such a database
//
// The database describes a past moment. Denials since then are lost: the certificate of a retired
// node, the key that a rotation replaced, the revoked token of an operator are valid again. Used
// enrol tokens are unused again. And counters stand lower than others have seen: epochs of nodes,
// cursors of runs, versions of the trust bundle, positions of events.
//
// # What holds from the first moment on
//
// store.MarkRestored writes all of this in one transaction before any broker can open the database
// (package backup; after pg_restore, hostler-broker restore --hold):
//
//   - The broker hands out probes only. No chain advances, no node is handed to a tenant, and the
//     leader's own work waits (package server).
//   - Enrol tokens are void, used or not; operators' tokens are revoked.
//   - Open tasks end outcome_unknown; a node's later report of such a task is kept beside it. Task
//     ids are never given twice and a node's ledger goes by them, so that nothing is done twice; no
//     counter of tasks can step back.
//   - Unfinished runs are stopped for a person: the cursor does not include the work since the
//     backup. Each stage looks before it acts, so that retry, resume and rerun find the real state.
//   - The next trust bundle, event and enrolment get numbers derived from the time of the restore.
//     These numbers are higher than any that can have been given out since the backup, also by a
//     broker that was restored from the same backup before.
//
// # Who is let in
//
// A certificate from before the restore can ask for a renewal and do nothing else, also after the
// release. The issue by our CA proves that the certificate was valid once; the restored database does
// not know of denials since. So the renewal is refused, unless a witness of the lost time
// confirms the node:
//
//	MAAS, while held    the machine is Deployed and has the node's mark. If the mark is by a
//	                    run that had ended in the backup, an identity of the backup's epoch
//	                    or a newer epoch is let in. If it is by another run, the machine was
//	                    deployed again, and the epoch must be newer
//	an operator         hostler-broker restore --accept NODE --key KEY: the latest to ask
//	a new enrolment     by a token that was issued since
//
// The epoch is read from the certificate. An epoch beyond the backup's proves that the node
// enrolled again: the node's row follows this epoch, all certificates before it are denied, and the
// node is quarantined, since the tenants in between are not on record. A lower epoch is superseded,
// as always. Of two identities of the same node the newer by epoch, and then by issue, is the
// node's; the other loses its certificate. An identity let in gets a certificate that is on
// record, and is a member like any other.
//
// A certificate issued in the lost time is on no record, and cannot be denied. So a denial
// of a key or a node since the restore also covers it: a denied key renews nothing, and a node that
// was denied, retired or given back lets in no identity from before. An answer can be lost only
// until the node is heard with the new certificate.
//
// Denials that no outside witness remembers are lost. Examples are a single denied certificate, on
// a machine that is still marked and whose node never presents a newer one, and a node that was
// removed while its machine stayed deployed. While the database is held such a node can only be
// probed, and docs/how-to/backup.md describes how to look for it.
//
// # What is compared
//
// While the database is held, Watch compares it with the machines of each site, and with the ledger
// of each node let in. Watch runs in the leading process, lists each difference and repairs
// none: this package never deploys, releases or powers a machine, and asks a node only for its list
// of tasks.
package restore
