// Package artifact keeps signed releases of the agent where OCI keeps things: in a
// directory (an image layout) and in a registry. What a release is, package release
// says; here is only where its bytes lie and how they are found again.
//
//	VERSION            the release's manifest
//	sha256-DIGEST.sig  its signatures, as cosign 2 writes them and as they are written
//	                   here: an image, each layer a payload, each signature an
//	                   annotation of it
//
// In a registry are read besides those that cosign 3 writes: bundles, each an artifact
// that refers to the release.
//
// A directory is made beside its place and renamed: it is there whole or not at all.
package artifact
