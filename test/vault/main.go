// Command vault is HashiCorp Vault's own program, built from its module for the tests that need a
// real Vault. This folder is a module of its own, so that Vault's dependencies cannot become
// dependencies of Hostler.
package main

import (
	"os"

	"github.com/hashicorp/vault/command"
)

func main() { os.Exit(command.Run(os.Args[1:])) }
