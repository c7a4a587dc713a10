// Package operators authenticates callers of the operator API: by bearer tokens, one per person or
// machine, each with a role and possibly a set of sites; and people by ID tokens of an OpenID Connect
// provider. The main type is Directory. The package does not decide what a role may do.
//
// # Rules
//
//   - A token is 256 random bits behind "hso_". The broker stores the token's hash; the secret is
//     shown once, at creation.
//   - Every request looks its token up. Nothing is cached, so a token revoked on any replica admits
//     no further request; a hint ends the requests that are still running, such as a waiting one.
//   - Each token has its own rate limit. So has each address that shows invalid tokens; a valid
//     token at the same address is not limited by it.
//   - The name of a token is the actor of its audit rows, and is never used again.
//   - A bearer with the form of an ID token goes to the provider's keys, if there is a provider. A person
//     has one role at one place, by the first rule of the config that matches; nobody has a role by
//     default. The person's name is oidc:SUBJECT, and cannot be the name of a token.
//   - A person whom a tenant denies at that place has no role, whatever the rules say. A later rule is
//     not tried.
package operators
