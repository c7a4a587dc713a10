// Package certificate makes and verifies clean certificates: the treatment of a machine between
// two tenants, its quality, and the parts that nobody inspected. The main type is Clean; Issue
// signs and Verify checks. The package reads no database and no network, and imports nothing of
// the broker.
//
// # Model
//
// A certificate is one file: a DSSE envelope with one signature by the statement key over an
// in-toto statement. Its predicate (Clean) is the broker's knowledge of one turnover. Beside the
// findings, Clean carries the proofs: the evidence of each task that counts, as signed by the
// node, the result named by digest in the evidence, and the node's certificate. So a reader needs
// only the file and a trust file, no network and no broker.
//
// A receipt (Receipt) is a second, smaller statement for the tenant: devices, methods and verdict
// without the operator's names. A receipt names the certificate by digest. An attestation is a
// person's statement about a part that no longer runs, and is marked as such.
//
// # What a verification checks
//
// In this order, each refusal with its code: size; the envelope's canonical form; the signature
// of a statement key; the kind of statement, since the key also signs audit heads; the payload's
// canonical form; the key in force at the time of issue; the proofs, each against node, epoch,
// key, task, result and the time of this turnover; the devices and findings against the proofs;
// the verdict against all of the content. An authentic statement may still be insufficient.
// Remarks then list the reasons: a missing device, a stale certificate, an unmet requirement of
// the policy.
//
// # Rules
//
//   - The verdict is a function of the other fields (Judge). A statement with another verdict is
//     refused, whoever signed it.
//   - Unknown counts as not done. A method outside the table has no grade; a device without a proof
//     is not clean.
//   - Every certificate lists the parts that no turnover covers (NeverCovered), and the limits of
//     evidence from a tenant's own operating system.
//   - Judge, the rows made from results, and the fields stay those of version 1 for ever: an old
//     certificate keeps its meaning. A change of meaning is a version 2 beside version 1.
//   - All text is cleaned on the way in, and unclean text is refused on the way out.
//
// # What a certificate does not prove
//
// The broker writes the statement. A holder of its keys can certify a node key of their own and
// invent the whole content. The node's certificate is accepted because the statement contains it:
// the roots that signed node certificates leave the trust bundle in time, and clean certificates
// are kept for longer. Evidence from inside an operating system on which a tenant had root is
// only as good as the tenant let it be.
package certificate
