// Package pki defines the keys, certificates and signed envelopes of Hostler, and verifies them.
// The main types are CA, Envelope and TrustBundle. The package stores no keys and makes no
// connections.
//
// # Parties and keys
//
// Every key has one use. A key with two uses is refused wherever both uses are visible.
//
//   - The root certificate is what nodes and operators pin. Its key may stay offline: it signs
//     issuing certificates and nothing else.
//   - The issuing CA, at the broker, signs certificates and nothing else. Node certificates carry
//     clientAuth only, broker certificates serverAuth only.
//   - The task key signs tasks.
//   - The trust key signs trust bundles, and so decides the task, statement, release and trust keys
//     and the roots that a node trusts from then on.
//   - The statement key signs clean certificates and audit heads.
//   - The release key signs agent releases; it is never kept on a broker.
//   - A node's key is generated on the node, never leaves the node, and serves the node's TLS and
//     evidence.
//
// # What is signed
//
// Documents travel as DSSE envelopes. The signature covers the payload's type and its bytes; the
// verifier names the expected type, and reads nothing of a payload before a signature holds. The
// first bundle is the one exception: the bundle names the key that signed it, and the node trusts
// the bundle because of the pinned TLS channel (FirstBundle). An envelope may carry several
// signatures. During a rotation both the old and the new key sign, so that nodes that know only one
// of the keys accept the document.
//
// A node's name is the URI in its certificate, hostler://node/ID?epoch=N. The epoch counts
// enrolments, so that documents of an earlier enrolment of the same machine are distinguished from
// those of the present enrolment.
//
// # Rules
//
//   - Every refusal is an *Error with a stable code. Nothing is repaired: a document outside its
//     canonical form is refused.
//   - Keys are Ed25519, or P-256 where a TPM or FIPS requires P-256. Other keys are refused.
//   - A statement is kept as a file and handed on, so a statement has exactly one byte form: one
//     signature, and of the two valid ECDSA signatures the signature with the smaller S.
//   - Input is bounded before it is parsed.
//   - Time is an argument. Two clocks may differ by taskcatalog.ClockSkew where a bundle says from
//     when to when a key is in force; certificates begin ten minutes in the past instead.
//   - Private keys are reached by URI (OpenSigner) and used as crypto.Signer, so that a key in an
//     HSM is a new line in one table.
package pki
