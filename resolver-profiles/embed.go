package profiles

import (
	"embed"
	"fmt"
)

//go:embed minimal.yaml
var minimal []byte

const minimalFile = "minimal.yaml"

// MinimalVersion is the version of the compiled-in set.
const MinimalVersion = "minimal"

// Minimal returns the set that is compiled into the agent, for enrolment and recovery. The set
// names no vendor, and every step is profile_missing.
func Minimal() *Set {
	set, problems := Parse(File{Name: minimalFile, Text: minimal})
	if problems != nil {
		panic(fmt.Sprintf("the compiled-in profiles: %v", problems))
	}
	set.Version = MinimalVersion
	return set
}

//go:embed amd.yaml generic.yaml nvidia.yaml
var shipped embed.FS

// Shipped returns the files of the set to start from. The agent never uses them: a node learns
// about vendors only from a signed task.
func Shipped() []File {
	var all []File
	for _, name := range []string{"amd.yaml", "generic.yaml", "nvidia.yaml"} {
		text, err := shipped.ReadFile(name)
		if err != nil {
			panic(err)
		}
		all = append(all, File{Name: name, Text: text})
	}
	return all
}
