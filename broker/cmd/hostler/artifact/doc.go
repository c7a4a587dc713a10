// Package artifact stores signed releases of the agent in OCI form: in a directory (an image layout,
// type Layout) and in a registry (type Registry). Package release defines the content of a release;
// this package only defines where its bytes lie and how they are found.
//
//	VERSION            the release's manifest
//	sha256-DIGEST.sig  its signatures in the form of cosign 2, for reading and writing:
//	                   an image, each layer a payload, each signature an annotation
//	                   of its layer
//
// From a registry the package also reads the signatures of cosign 3: bundles, each an artifact that
// refers to the release.
//
// A directory is made beside its place and renamed, so that it exists whole or not at all.
package artifact
