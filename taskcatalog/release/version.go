package release

import (
	"strings"

	"golang.org/x/mod/semver"
)

const maxVersion = 64

// ValidVersion reports whether v is a version that a release may have: semver in full,
// without the v, and without build metadata, in which two versions could differ and be
// neither above nor below each other.
func ValidVersion(v string) bool {
	return len(v) <= maxVersion && !strings.ContainsRune(v, '+') && semver.Canonical("v"+v) == "v"+v
}

// Compare is negative where a is the older version, zero where they are the same. Both
// must be valid.
func Compare(a, b string) int { return semver.Compare("v"+a, "v"+b) }
