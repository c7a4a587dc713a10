// Package redact takes secrets and users' names out of what is about to leave a node
// for people to read.
//
// # Model
//
// A secret is told in three ways, and each goes on where the one before does not see
// it: by its value, of those that the agent has on its disk; by its form (a private
// key, a token of ours, a JWT, a password's hash, the user part of an address) or by
// the word before it (password=, "token_secret": …); and by being long and mixed as
// only random text in base64 is.
//
// # Rules
//
//   - Too much rather than too little: a line is still of use without a word of it.
//   - Hexadecimal in lower case stays, as digests, ids and serial numbers are that.
//     Nothing that the agent keeps secret is.
//   - Text is redacted before it is escaped or cut: half a secret is known by nothing.
//   - A JSON document is redacted value by value and stays one.
package redact
