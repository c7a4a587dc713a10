package taskcatalog

import (
	"slices"
	"strconv"
	"strings"
)

// Capabilities that a node reports in addition to the capability taxonomy.
const (
	// CapabilityResolverDigest is the digest of the resolver profiles in force on the node.
	CapabilityResolverDigest = "resolver.digest"

	// CapabilityOperationForm is the form of plans that the agent understands: OperationForm of its release. Agents of
	// before report none.
	CapabilityOperationForm = "operation.form"

	// FirstBoot is the prefix of the names that report the results of first-boot layers. The values
	// are FirstBootDone, FirstBootWaiting, and FirstBootFailed followed by the reason.
	FirstBoot        = "first_boot."
	FirstBootDone    = "done"
	FirstBootWaiting = "waiting"
	FirstBootFailed  = "failed: "
)

// GPUCount is the fact that counts the GPUs. Of a plan's requirements it is the least number: a machine may
// have more.
const GPUCount = "gpu.count"

// EnoughGPUs reports whether a value of the fact GPUCount is want or more. An unknown one is not.
func EnoughGPUs(has string, want int) bool {
	n, err := strconv.Atoi(has)
	return err == nil && n >= want
}

// UnderstandsForm reports whether an agent that reports a form understands plans of the form want. Of an unknown form it
// understands the first alone.
func UnderstandsForm(reported string, want int) bool {
	n, err := strconv.Atoi(reported)
	return want <= 1 || err == nil && n >= want
}

// FactKey reports whether name belongs to the capability taxonomy. Such names describe the hardware
// and software of a node, and selectors may use them.
func FactKey(name string) bool {
	family, rest, ok := strings.Cut(name, ".")
	return ok && rest != "" && slices.Contains([]string{"gpu", "compute", "fabric", "container", "os"}, family)
}
