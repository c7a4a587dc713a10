// Package profilestest gives tests the files of the set that operators start from.
package profilestest

import (
	"os"
	"path/filepath"

	profiles "github.com/hostler/hostler/resolver-profiles"
)

// Shipped returns the files of the set to start from. No program of Hostler uses them: a node
// learns about vendors only from a signed task.
func Shipped() []profiles.File {
	dir := folder()
	var all []profiles.File
	for _, name := range []string{"amd.yaml", "generic.yaml", "nvidia.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			panic(err)
		}
		all = append(all, profiles.File{Name: name, Text: text})
	}
	return all
}

// folder finds the set from the folder that a test runs in, which is its package's. The compiler is
// told to forget where sources lie.
func folder() string {
	for dir := "."; ; dir = filepath.Join(dir, "..") {
		if here, err := filepath.Abs(dir); err != nil || here == "/" {
			panic("no go.mod above the folder of the test")
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "resolver-profiles")
		}
	}
}
