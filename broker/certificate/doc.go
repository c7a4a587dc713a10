// Package certificate makes and verifies clean certificates: what was done to a
// machine between two tenants, how well, and what nobody looked at.
//
// # Model
//
// A certificate is one file: a DSSE envelope with one signature by the statement
// key over an in-toto statement. Its predicate (Clean) is what the broker knows
// of one turnover. Beside what was found it carries the proofs: the evidence of
// each task that counts, as the node signed it, the result that the evidence
// names by digest, and the node's certificate. So whoever has the file and a
// trust file needs nothing else, no network and no broker.
//
// A receipt (Receipt) is a second, smaller statement for the tenant: devices,
// methods and verdict without the operator's names. It names the certificate by
// digest. An attestation is a person's word for a part that no longer runs, and
// is marked as one.
//
// # What a verification holds
//
// In this order, each refusal with its code: size; the envelope's one form; the
// signature of a statement key; which kind of statement it is, as the key signs
// audit heads, too; the payload's one form; the key in force when it was issued;
// the proofs, each against node, epoch, key, task, result and the time of this
// turnover; the devices and findings against the proofs; the verdict against all
// of it. Then what is authentic and still no good is told as remarks: a device
// that is missing, a certificate gone stale, whatever the policy asks and did not
// get.
//
// # Rules
//
//   - The verdict is a function of the rest (Judge). A statement whose verdict is
//     another is refused, whoever signed it.
//   - What is not known counts as not done. A method that is not in the table has
//     no grade; a device without a proof is not clean.
//   - What no turnover covers stands in every certificate (NeverCovered), and so
//     does what a tenant's own operating system cannot prove.
//   - Judge, the rows that results become, and the fields are those of version 1
//     for ever: an old certificate must mean tomorrow what it meant. What changes
//     them is a version 2 beside it.
//   - All text is cleaned when it goes in, and refused where it is not clean when
//     it comes out.
//
// # What it does not prove
//
// The broker writes the statement, and whoever holds its keys can certify a node
// key of their own and make up all of it. The node's certificate is taken on the
// statement's word, because the roots that signed it leave the trust bundle in
// time and certificates are kept for longer. What a node says from inside the
// operating system that a tenant had root on is worth what that tenant let it say.
package certificate
