// Package redact removes secrets and users' names from text and JSON that leaves a node for people
// to read. Its main type is Redactor. The package does not decide what leaves the node.
//
// # Model
//
// A secret is recognised in three ways, and each catches what the previous one misses: by its
// value, for the secrets on the agent's disk; by its form (a private key, a Hostler token, a JWT, a
// password hash, the user part of an address) or by the word before it (password=, "token_secret":
// …); and by being long and mixed like random text in base64.
//
// # Rules
//
//   - Redact too much rather than too little: a line is still of use without a word.
//   - Lower-case hexadecimal stays, because digests, ids and serial numbers have this
//     form. No secret kept by the agent has it.
//   - Text is redacted before it is escaped or cut: a partial secret is not recognised.
//   - A JSON document is redacted value by value and stays valid JSON.
package redact
