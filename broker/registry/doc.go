// Package registry has OCI registries make tokens that may pull one repository, for
// nodes that update their agent from there. What the broker keeps is an account of the
// registry; no node is given it.
//
// # One token
//
//	1 the task      is an update as the broker signed it, and its release is on record
//	2 the account   is read from the secrets, with the address that it was tried at
//	3 GET /v2/      without the account: the registry names its token service (401, Bearer),
//	                which must be where the account was tried
//	4 the service   is asked, with the account, for repository:NAME:pull
//	5 the token     is read where it is a JWT, and refused where it opens more, cannot be
//	                read, or has the password in it
//
// The protocol (Distribution's token authentication) knows nothing narrower than a
// repository: that the node takes no other digest is the node's own rule.
//
// # Where the account goes
//
// To the token service that the registry named over TLS that verifies when the account
// was set, and nowhere else: no redirect is followed, no proxy and nothing else of the environment is used, and a
// service without TLS is asked only for a registry that an operator said has none. A
// registry that wants the account itself (Basic) makes no tokens, and is not used. What
// either of them answers is bounded in size and time and never repeated in an error.
//
// oras, which speaks to registries elsewhere here, is not used for it: it sends the
// account to a registry that asks for Basic, asks for whatever more the registry names,
// tells nothing of when a token ends, and refuses token services on private networks.
package registry
