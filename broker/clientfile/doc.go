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
//     trusted at first use. In a rotation of the root there are two: the broker
//     keeps its own file, and the CLI learns the new one from a broker that it can
//     still tell by the old one.
//   - A file appears whole or not at all.
package clientfile
