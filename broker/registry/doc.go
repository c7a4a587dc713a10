// Package registry obtains tokens from OCI registries that may pull one repository. Nodes use the
// tokens to update their agent and to pull artifacts. The broker itself reads the signatures of
// artifacts (Repository). The main type is Pulls. The broker stores an account of the
// registry; no node gets the account.
//
// # One token
//
//	1 the task      is an update signed by the broker, and its release is on record
//	2 the account   is read from the secrets, with the address where it was tried
//	3 GET /v2/      without the account: the registry names its token service (401, Bearer),
//	                which must be where the account was tried
//	4 the service   is asked, with the account, for repository:NAME:pull
//	5 the token     is read if it is a JWT, and refused if it permits more, cannot be
//	                read, or contains the password
//
// The protocol (Distribution's token authentication) has no narrower scope than a repository. The
// node itself ensures that it accepts no other digest.
//
// # Where the account goes
//
// Only to the token service that the registry named, over verified TLS, when the account was set.
// No redirect is followed, and no proxy or other setting of the environment is used. A service
// without TLS is used only for a registry that an operator declared to have none. A registry that
// requires the account itself (Basic) makes no tokens and is not used. Answers are bounded in size
// and time and never repeated in an error.
//
// The broker reads a repository with such a token, or as anybody may where no account is set. A
// redirect is followed for a blob alone, over TLS, without the token, and neither to the broker's own
// machine nor to a service of metadata.
//
// Package oras, which the broker otherwise uses for registries, is not used here. It sends the
// account to a registry that asks for Basic, requests additional scopes that the registry names,
// does not report a token's expiry, and refuses token services on private networks.
package registry
