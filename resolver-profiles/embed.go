package profiles

import (
	_ "embed" // minimal.yaml
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
