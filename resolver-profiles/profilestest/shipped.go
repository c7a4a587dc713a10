// Package profilestest gives tests the files of the set that operators start from.
package profilestest

import (
	"os"
	"path/filepath"
	"runtime"

	profiles "github.com/hostler/hostler/resolver-profiles"
)

// Shipped returns the files of the set to start from. No program of Hostler uses them: a node
// learns about vendors only from a signed task.
func Shipped() []profiles.File {
	_, here, _, _ := runtime.Caller(0)
	var all []profiles.File
	for _, name := range []string{"amd.yaml", "generic.yaml", "nvidia.yaml"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "..", name))
		if err != nil {
			panic(err)
		}
		all = append(all, profiles.File{Name: name, Text: text})
	}
	return all
}
