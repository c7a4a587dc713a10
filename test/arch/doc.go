// Package arch holds the import rules of the repository as a test: who may
// know whom. A rule that is broken names the import and the reason.
package arch
