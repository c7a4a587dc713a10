// Package clientfile is client.yaml: where a broker is, the root certificate
// it must show, and the file that holds the operator's token. The broker
// writes one into its data directory and the CLI reads it; a context of the
// CLI is the same file under a name.
//
// # Rules
//
//   - The file holds no secret; the token lies beside it in a file of its own,
//     which only its owner may read.
//   - The root certificate is pinned whole, so that nothing is looked up or
//     trusted at first use.
//   - A file appears whole or not at all.
package clientfile
