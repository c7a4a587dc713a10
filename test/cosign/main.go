// Command cosign is Sigstore's cosign, built from its module for the test that needs the real
// program. This folder is a module of its own, so that cosign's dependencies cannot become
// dependencies of Hostler.
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
