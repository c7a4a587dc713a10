package steps

import "maps"

// The kinds that bring and verify artifacts.
func init() {
	maps.Copy(kinds, map[string]Kind{
		"artifact.pull_blob": {Look: blobPulled, Do: pullBlob},
		"artifact.pull_oci":  {Look: ociPulled, Do: pullOCI},
		"artifact.verify":    {Look: verified, Do: verify},
	})
}
