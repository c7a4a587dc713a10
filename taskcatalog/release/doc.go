// Package release is what a release of the agent is, and how one is told from
// something that only looks like it. It is pure data: broker, agent and the
// operator's client judge by the same text, from bytes that any of them fetched.
//
// # Parts
//
//	manifest    OCI image manifest: names the two below by digest
//	statement   its config: version, commit, platform, digest of the program,
//	            which state the program reads and writes
//	layer       the program, gzip
//	signatures  what "cosign sign --key" makes: a payload that names the
//	            manifest's digest, and a signature of it
//
// The digest of the manifest is the digest of the release. Manifest and statement
// have one form, byte for byte, so a release built twice has one digest.
//
// # Order of judgement
//
// Nothing inside is read before what is around it holds:
//
//	Open        manifest against the digest that was asked for, then a signature
//	            by a release key in force, then the manifest's own form
//	Statement   statement against the digest in the manifest, then its form
//	Unpack      layer against the digest in the manifest, while it is read; the
//	            program that comes out, against the statement
//	Meets       the statement against what a node asks for
//
// A release key's private half is on no broker: whoever owns the broker can name
// which signed release a node gets, and cannot make one.
package release
