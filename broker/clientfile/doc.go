// Package clientfile reads and writes client.yaml: the address of a broker, the broker's root
// certificate, and the path of the operator's token file. Its main type is File. The broker writes
// client.yaml into its data directory, and the CLI reads the file. A context of the CLI is such a
// file under a name. The package connects to no broker.
//
// # Rules
//
//   - client.yaml holds no secret. The token, or a person's sign-in, is in a separate file beside it,
//     readable only by the file's owner.
//   - The whole root certificate is pinned, so nothing is looked up or trusted at first use. During
//     a rotation of the root there are two roots: the broker keeps its own file up to date, and the
//     CLI learns the new root from a broker that the old root still verifies.
//   - A file is written completely or not at all.
package clientfile
