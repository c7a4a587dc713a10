// Package operations holds the definitions of operations that ship with Hostler, a file each. The package
// broker/operation/definition reads and checks them.
package operations

import "embed"

// Files are the definitions, by the names OPERATION@VERSION.yaml.
//
//go:embed *.yaml
var Files embed.FS
