// Package clients has public generators make clients of the operator API from its own
// description, and has each client ask a broker.
//
// The generators and what the clients need at run time are pinned in modules of their own,
// by go.sum in go/ and by package-lock.json in typescript/: nothing of them becomes a
// dependency of Hostler. The first run downloads them.
package clients
