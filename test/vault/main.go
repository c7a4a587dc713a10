// Command vault is HashiCorp Vault's own program, built from its module, for
// the tests that need a real one. It is a module of its own, so that none of
// what Vault depends on can become a dependency of Hostler.
package main

import (
	"os"

	"github.com/hashicorp/vault/command"
)

func main() { os.Exit(command.Run(os.Args[1:])) }
