package taskcatalog

// AgentPackage is what one published package of the agent puts on a node.
type AgentPackage struct {
	Digest string `json:"digest"` // of the package: sha256:…
	// Files are its regular files and links, with the digests of a baseline.
	Files []BaselineFile `json:"files" jsonschema:"minItems=1,maxItems=64"`
	// Slots are what updates and other packages may have put beside, or left: each path is
	// as one of its rows says, or not there. An agent that cannot update itself is sent
	// none, and would not know the name.
	Slots []BaselineFile `json:"slots,omitempty" jsonschema:"maxItems=256"`
}

// Where a package of the agent puts things: docs of package packaging.
const (
	AgentFolder = "/usr/lib/hostler-agent"
	AgentLink   = "/usr/bin/hostler-agent"
	// AgentGood is the link to the version that is known to work, which updates keep.
	AgentGood = AgentFolder + "/good"
)

// AgentProgram is the path of one version's program. The package is of the version
// whose program it has.
func AgentProgram(version string) string {
	return AgentFolder + "/versions/" + version + "/hostler-agent"
}
