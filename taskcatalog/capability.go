package taskcatalog

import (
	"slices"
	"strings"
)

// Capabilities that a node reports beside the taxonomy of its facts.
const (
	// CapabilityResolverDigest is the digest of the resolver profiles that the node
	// has in force.
	CapabilityResolverDigest = "resolver.digest"

	// FirstBoot begins the names that tell how the layers of a first boot ended:
	// FirstBootDone, FirstBootWaiting, or FirstBootFailed and why.
	FirstBoot        = "first_boot."
	FirstBootDone    = "done"
	FirstBootWaiting = "waiting"
	FirstBootFailed  = "failed: "
)

// FactKey reports whether a name is of the capability taxonomy:
// what a node is made of, and so may be selected by.
func FactKey(name string) bool {
	family, rest, ok := strings.Cut(name, ".")
	return ok && rest != "" && slices.Contains([]string{"gpu", "compute", "fabric", "container", "os"}, family)
}
