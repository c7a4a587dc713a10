package maas

import "strings"

// Image is a distro_series as deploy must be given it: an image of our own is in
// MAAS's custom namespace, and asking for it without would look for a series of
// Ubuntu.
func Image(series string) string {
	if strings.HasPrefix(series, "gpuaas-") {
		return custom + series
	}
	return series
}

const custom = "custom/"
