// Package oidc verifies the ID tokens of one OpenID Connect provider. The main type is Provider. The
// package does not decide what a person may do.
//
// # Rules
//
//   - An ID token counts only with a signature of a key that the provider publishes, and only for the
//     configured issuer and client. Another application's token of the same provider is refused, even
//     if the token lists this client as a further audience.
//   - The signature algorithms are fixed. "none" and algorithms with a shared secret are not among them.
//   - The provider is read when the first token comes, not when the broker starts. A provider that is
//     away is an error of sign-ins alone.
//   - Nothing is cached but the provider's description and keys, for an hour at most. A token that none of
//     the known keys has signed makes the broker read them again, with or without the id of a key: six
//     times a minute for all such tokens together, and two more at once.
//   - Whoever waits for a read makes none of its own afterwards, so that a provider that hangs keeps
//     nobody waiting for long. A failed read leaves the keys in use as they are.
//   - Why a token is refused, or what a provider answered, is for the log alone.
//   - A read of the provider is limited in time and bytes, follows no redirect, and uses https alone.
//   - An ID token is good for 24 hours at most, whatever its expiry says: a provider revokes a person by
//     giving no further token.
package oidc
