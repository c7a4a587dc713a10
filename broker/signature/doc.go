// Package signature judges the signatures of artifacts: does a trusted signer vouch for the artifact of
// a digest? The main type is Judge. The package is the only user of cosign and of sigstore-go.
//
// # Model
//
// An administrator sets broker.ArtifactSigner records for registries and sources of files. When an operation is
// planned, Judge reads the signatures that lie beside each artifact in its registry, or that are given with
// a file, and verifies them against the signers of every place that covers it. Its finding, a
// taskcatalog.ArtifactSignature, becomes a part of the signed plan. A node verifies the signature of the
// plan and the digest of the artifact, and knows nothing of cosign.
//
// Agent releases are verified by package release, here and on nodes. Release judges them a second time with
// cosign's library when a release is published, so that a fault of one verifier lets no release in.
//
// # Forms
//
//	at a tag    sha256-HEX.sig: up to cosign 2. A layer is the signed payload, which names the digest;
//	            signature, certificate, entry of the log and timestamp are its annotations
//	referrers   since cosign 3: a manifest that refers to the artifact has a Sigstore bundle as layer,
//	            an envelope around a statement that names the digest
//
//	given       with a file, whose content is not read here: Sigstore bundles around a signature of the
//	            file's digest or a statement that names it, and what cosign 2 writes: a bundle of its
//	            own, or a signature alone
//
// Each becomes one bundle, which one call of the library verifies.
//
// # Rules
//
//   - Nothing is asked but an artifact's own registry, and for a file nothing at all. Trusted roots are given by an administrator, and
//     neither fetched nor renewed.
//   - An identity needs an entry of a trusted log and a time of its signature, by the log or by a
//     timestamp authority; its certificate must have been valid then. If the trusted root has logs of
//     certificates, the certificate must be in one. A key needs the log if its signer has a trusted root.
//   - The payload or the statement is read once its signature holds. A statement that is no signature,
//     such as an attestation of a scan, does not count, whoever signed it.
//   - Sizes, numbers and time are bounded. What is too large or unknown is passed over; it never
//     verifies.
//   - A panic of the library is a refusal.
//   - No error quotes what a registry sent, or what was given with a file.
package signature
