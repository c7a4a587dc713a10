// Package secretstest tests the rules of every secrets.Keeper (Run), and provides a fake HashiCorp
// Vault with configurable faults (Vault). The fake implements the part of Vault's HTTP API that the
// broker uses.
//
// The fake answers as Vault 1.21 does: the tests of package secrets that use the fake also run
// against a real Vault (make test-vault).
package secretstest
