// Command cosign is Sigstore's cosign, built from its module, for the test that needs
// the real one. It is a module of its own, so that none of what cosign depends on can
// become a dependency of Hostler.
package main

import (
	"fmt"
	"os"

	"github.com/sigstore/cosign/v3/cmd/cosign/cli"
)

func main() {
	if err := cli.New().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
