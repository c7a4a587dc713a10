// Package deb lists the files that a Debian package installs on a machine. The main function is
// Files. The package installs nothing.
//
// The broker stores the packages of the agent by digest. The expected program of a node is computed
// from the bytes of these packages only, never from statements of a node or an operator.
//
// # Rules
//
//   - A package is what dpkg calls one, in the one order that dpkg writes: debian-binary,
//     control.tar, data.tar, nothing else. What dpkg would skip or read in another way is refused,
//     so that both see the same files.
//   - Only what the standard library unpacks is read: gzip, or nothing. `make package` writes gzip
//     for that reason.
//   - Files and symbolic links are listed, with the digests of a baseline. A package with anything
//     else that is no directory cannot be compared, and is refused.
//   - Size, number and names of files are bounded: a package is bytes that somebody has uploaded.
package deb
