// Package registry speaks to a repository of an OCI registry: it opens blobs and manifests by their
// digest. The main type is Repository. It is the agent's only user of oras.
//
// # Rules
//
//   - A token goes to the registry alone, and to no target of a redirect.
//   - No error contains what a registry sent or was sent: a registry may repeat a token, and the address
//     of a redirect may itself give access to the data.
//   - What comes is untrusted. The caller verifies its digest.
//
// The package does not retry: the caller counts the tries. It knows neither releases nor artifacts.
package registry
