package taskcatalog

// Capabilities that a node reports beside the taxonomy of its facts.
const (
	// CapabilityResolverDigest is the digest of the resolver profiles that the node
	// has in force.
	CapabilityResolverDigest = "resolver.digest"
)
