package maas

import (
	"strings"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/broker"
)

// Image returns the distro_series that deploy needs. An image of our own is in MAAS's custom
// namespace; without the prefix MAAS would look for a series of Ubuntu.
func Image(series string) string {
	if name := broker.ImageName(series); strings.HasPrefix(name, custom) {
		return name
	}
	return series
}

const custom = "custom/"

// listedAs reports whether a boot resource is the image that deploy calls so. MAAS stores an upload
// of custom/golden as golden, in all versions up to 3.7. A later version keeps the prefix, so both
// are accepted. An image that MAAS imports has the operating system in its name (ubuntu/noble) and
// is no upload, so the two cannot be confused.
func listedAs(b entity.BootResource, image string) bool {
	if name, is := strings.CutPrefix(image, custom); is {
		return b.Type == "Uploaded" && strings.TrimPrefix(b.Name, custom) == name
	}
	return b.Name == image
}
