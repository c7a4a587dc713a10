// Package secretstest holds what every secrets.Keeper must do (Run), and a
// stand-in for HashiCorp Vault that speaks the part of its HTTP API that the
// broker uses (Vault), with faults to set.
//
// The stand-in answers as Vault 1.21 does: the tests of package secrets that
// use it run against a real one too (make test-vault).
package secretstest
