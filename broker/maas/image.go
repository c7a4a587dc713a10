package maas

import (
	"strings"

	"github.com/canonical/gomaasclient/entity"
)

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

// listedAs reports whether a boot resource is the image that deploy calls so. MAAS
// stores an upload of custom/golden as golden, in all versions up to 3.7; a later one
// keeps the prefix, so both are taken. What MAAS imports has its system in its name
// (ubuntu/noble) and is no upload, so the two cannot be taken for each other.
func listedAs(b entity.BootResource, image string) bool {
	if name, is := strings.CutPrefix(image, custom); is {
		return b.Type == "Uploaded" && strings.TrimPrefix(b.Name, custom) == name
	}
	return b.Name == image
}
