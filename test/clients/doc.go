// Package clients has public generators generate clients from the operator API's own description,
// and runs each client against a broker.
//
// The generators and the clients' run-time dependencies are pinned in modules of their own, by
// go.sum in go/ and by package-lock.json in typescript/: none becomes a dependency of Hostler. The
// first run downloads them.
package clients
