// Package deb lists the files that a Debian package installs on a machine. The main function is
// Files. The package installs nothing.
//
// The broker stores the packages of the agent by digest. The expected program of a node is computed
// from the bytes of these packages only, never from statements of a node or an operator.
//
// # Rules
//
//   - A package has the members that dpkg writes, in the same order: debian-binary, control.tar,
//     data.tar, nothing else. A package with parts that dpkg would skip or read differently is
//     refused, so that Files and dpkg see the same files.
//   - data.tar is uncompressed or compressed with gzip, which the standard library reads. Therefore
//     `make package` writes gzip.
//   - Files and symbolic links are listed, with the digests of a baseline. A package with any other
//     entry except directories cannot be compared, and is refused.
//   - Size, number and names of files are bounded, because a package is uploaded input.
package deb
