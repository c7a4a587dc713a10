package facts

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// driverOf is the kernel driver of each vendor.
var driverOf = map[string]string{"nvidia": "nvidia", "amd": "amdgpu", "intel": "xe"}

// vendorOf reads the PCI vendor id.
var vendorOf = map[string]string{"10de": "nvidia", "1002": "amd", "8086": "intel"}

// GPUVendor is the vendor of a PCI function that is a GPU: nvidia, amd, intel, or other for another
// vendor's accelerator; "" if the function is no GPU. The display of a management controller and
// Intel's graphics inside a processor are no GPUs.
func GPUVendor(d taskcatalog.PCIDevice) string {
	accelerator, display := strings.HasPrefix(d.Class, "12"), strings.HasPrefix(d.Class, "03")
	switch name := vendorOf[d.Vendor]; {
	case name == "intel" && !accelerator && d.Class != "038000":
		return ""
	case name != "" && (accelerator || display):
		return name
	case accelerator:
		return "other"
	}
	return ""
}

// Unlisted returns the GPUs of known vendors on the bus that no library lists: the content of their
// memory is unknown.
func Unlisted(f taskcatalog.Facts, listed []taskcatalog.GPUFacts) []taskcatalog.PCIDevice {
	var all []taskcatalog.PCIDevice
	for _, d := range f.PCI {
		vendor := GPUVendor(d)
		known := slices.ContainsFunc(listed, func(g taskcatalog.GPUFacts) bool { return strings.EqualFold(g.PCIAddress, d.Address) })
		if vendor != "" && vendor != "other" && !known {
			all = append(all, d)
		}
	}
	return all
}

// GPUKeys are the taxonomy keys of a vendor's GPUs: on a node with two vendors each has its own.
// Unknown keys are missing.
func GPUKeys(f taskcatalog.Facts, vendor string) map[string]string {
	own := func(g taskcatalog.GPUFacts) bool { return g.Vendor == vendor }
	k := map[string]string{"gpu.vendor": vendor, taskcatalog.GPUCount: strconv.Itoa(count(f, vendor))}
	if i := slices.IndexFunc(f.GPUs, own); i >= 0 && f.GPUs[i].Architecture != "" {
		k["gpu.architecture"] = f.GPUs[i].Architecture
	}
	for _, d := range f.Drivers {
		if d.Name == driverOf[vendor] {
			k["gpu.driver"] = d.Name
			if series := seriesOf(d.Version); series != "" {
				k["gpu.driver_series"] = series
			}
		}
	}
	return k
}

// count is how many GPUs of a vendor are there: those on the bus, or those that the vendor's library
// lists, if it lists fewer. A GPU that has stopped answering may still be on the bus. Where one of the two has
// none, the other counts: without a driver nothing is listed, and a GPU may have a class on the bus that is not known.
func count(f taskcatalog.Facts, vendor string) int {
	onBus, listed := 0, 0
	for _, d := range f.PCI {
		if GPUVendor(d) == vendor {
			onBus++
		}
	}
	for _, g := range f.GPUs {
		if g.Vendor == vendor {
			listed++
		}
	}
	if onBus == 0 || listed == 0 {
		return max(onBus, listed)
	}
	return min(onBus, listed)
}

// seriesOf is the first two numbers of a driver's version.
func seriesOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}
