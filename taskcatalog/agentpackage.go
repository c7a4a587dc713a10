package taskcatalog

// AgentPackage lists what one published package of the agent installs on a node.
type AgentPackage struct {
	Digest string `json:"digest"` // of the package: sha256:…
	// Files are the regular files and links of the package, with digests as in a baseline.
	Files []BaselineFile `json:"files" jsonschema:"minItems=1,maxItems=64"`
	// Slots are paths beside Files that updates or other packages may have written or left behind.
	// Each path is either missing or equal to one of its rows. The broker sends no Slots to an
	// agent that cannot update itself: such an agent does not know the field.
	Slots []BaselineFile `json:"slots,omitempty" jsonschema:"maxItems=256"`
}

// Paths of an installed agent package (see the doc of package packaging).
const (
	AgentFolder = "/usr/lib/hostler-agent"
	AgentLink   = "/usr/bin/hostler-agent"
	// AgentGood is the link to the version that is known to work. Updates maintain the link.
	AgentGood = AgentFolder + "/good"
)

// AgentProgram returns the path of the program of a version. The program that a package contains
// determines the version of the package.
func AgentProgram(version string) string {
	return AgentFolder + "/versions/" + version + "/hostler-agent"
}
