// Package arch tests the repository's import rules: which package may import which. A failure names
// the import and the reason. The package also tests rules about calls and pages of documentation.
package arch
