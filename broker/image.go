package broker

import "strings"

// NodeImage is the image that a run had MAAS install on a node's machine.
type NodeImage struct {
	Name  string // as ImageName gives it; empty: not known
	RunID string // of the run that had it installed; only in a record to be made
	// BaselineOf is the image on which the node's baseline was taken. Empty: not known.
	BaselineOf string
	// BaselineDigest is the newest baseline that was taken on the image. Empty: none.
	BaselineDigest string
}

// customImage begins the names of images that were uploaded to MAAS.
const customImage = "custom/"

// ImageName is the one name of an image that may be written in two ways: noble is ubuntu/noble, and an
// image whose name begins with gpuaas- is an uploaded one. Empty stays empty.
func ImageName(series string) string {
	switch {
	case series == "" || strings.Contains(series, "/"):
		return series
	case strings.HasPrefix(series, "gpuaas-"):
		return customImage + series
	}
	return "ubuntu/" + series
}

// ValidImage reports whether a name has the form of an image of MAAS.
func ValidImage(name string) bool { return seriesForm.MatchString(name) }
