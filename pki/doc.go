// Package pki says who is who and who signed what.
//
// # Parties and keys
//
// One use per key; a key in two places is refused wherever both can be seen.
//
//   - The root certificate is what nodes and operators pin. Its key may stay
//     offline: it signs issuing certificates and nothing else.
//   - The issuing CA, at the broker, signs certificates and nothing else. Node
//     certificates carry clientAuth only, broker certificates serverAuth only.
//   - The task key signs tasks.
//   - The trust key signs trust bundles, and so decides which task, statement,
//     release and trust keys and which roots a node believes from then on.
//   - The statement key signs clean certificates and audit heads.
//   - The release key signs agent releases; it is never kept on a broker.
//   - A node's key is made on the node, never leaves it, and serves that node's
//     TLS and its evidence.
//
// # What is signed
//
// Documents travel as DSSE envelopes. The signature covers the payload's type
// and its bytes; the verifier names the type it expects, and nothing of a
// payload is looked at before a signature holds. The one exception is the first
// bundle, which names the key that signed it and is believed for the pinned TLS
// channel that it came over (FirstBundle). Several signatures are
// possible, which is how a key is replaced without a moment at which a node
// that knows only the old or only the new key is left out.
//
// A node's name is the URI in its certificate, hostler://node/ID?epoch=N. The
// epoch counts enrolments, so that what an earlier enrolment of the same machine
// signed or was sent is told apart from the present one.
//
// # Rules
//
//   - Every refusal is an *Error with a stable code. Nothing is repaired: a
//     document that is not in its one canonical form is refused.
//   - Keys are Ed25519, or P-256 where a TPM or FIPS asks for it. Nothing else.
//   - A statement is kept as a file and handed on, so it has one form down to the
//     byte: one signature, and of ECDSA's two the one with the smaller S.
//   - Input is bounded before it is parsed.
//   - Time is an argument. Two clocks may differ by taskcatalog.ClockSkew where
//     a bundle says from when to when a key is in force; certificates begin ten
//     minutes in the past instead.
//   - Private keys are reached by URI (OpenSigner) and used as crypto.Signer, so
//     that a key in an HSM is a new line in one table.
package pki
