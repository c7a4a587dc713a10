package release

import (
	"strings"

	"golang.org/x/mod/semver"
)

const maxVersion = 64

// ValidVersion reports whether v may be the version of a release: full semver, without the v and
// without build metadata. Versions that differ only in build metadata would have no order.
func ValidVersion(v string) bool {
	return len(v) <= maxVersion && !strings.ContainsRune(v, '+') && semver.Canonical("v"+v) == "v"+v
}

// Compare is negative if a is the older version and zero if both are the same. Both must be valid.
func Compare(a, b string) int { return semver.Compare("v"+a, "v"+b) }
