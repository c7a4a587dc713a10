// Package release defines a release of the agent and verifies its authenticity. The main type is
// Manifest, and Open returns a verified one. The package is pure data: the broker, the agent and
// the operator's client apply the same checks to bytes that any of them fetched.
//
// # Parts
//
//	manifest    OCI image manifest: names the statement and the layer by digest
//	statement   its config: version, commit, platform, digest of the program,
//	            the state that the program reads and writes
//	layer       the program, gzip
//	signatures  made by "cosign sign --key": a payload that names the
//	            manifest's digest, and a signature of the payload
//
// The digest of the manifest is the digest of the release. Manifest and statement have one byte
// form, so a release built twice has one digest.
//
// # Order of judgement
//
// Content is read only after its container has been verified:
//
//	Open        manifest against the requested digest, then a signature
//	            by a release key in force, then the manifest's own form
//	Statement   statement against the digest in the manifest, then its form
//	Unpack      layer against the digest in the manifest, while it is read; the
//	            unpacked program against the statement
//	Meets       the statement against a node's demands
//
// The private half of a release key is on no broker. The owner of a broker can choose among signed
// releases for a node, and cannot make a release.
package release
