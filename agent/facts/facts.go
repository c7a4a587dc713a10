package facts

import (
	"context"
	"errors"
	"maps"

	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Survey returns the GPUs according to the vendors' libraries. An error means that the survey could
// not run; a missing library is part of the answer.
type Survey func(ctx context.Context) ([]taskcatalog.GPUFacts, []taskcatalog.LibraryFacts, error)

// Gather gathers the facts. A nil survey asks no library. Gather fails only if sysfs itself cannot
// be read.
func Gather(ctx context.Context, m *machine.Machine, survey Survey) (taskcatalog.Facts, error) {
	var f taskcatalog.Facts
	var err error
	if f.PCI, err = pci(m); err != nil {
		return f, err
	}
	if f.Drivers, err = drivers(m); err != nil {
		return f, err
	}
	if f.Disks, err = disks(m); err != nil {
		return f, err
	}
	f.DisksListed = true
	f.ChassisSerial = chassisSerial(m)
	if survey != nil {
		if f.GPUs, f.Libraries, err = survey(ctx); err != nil {
			f.Libraries = append(f.Libraries, taskcatalog.LibraryFacts{
				Name: "survey", Problem: taskcatalog.CodeOf(err, "survey_failed"), Detail: err.Error(),
			})
		}
	}
	f.Keys, err = keys(m, f)
	f.Bound()
	return f, err
}

// keys fills the capability taxonomy.
func keys(m *machine.Machine, f taskcatalog.Facts) (map[string]string, error) {
	k := GPUKeys(f, vendor(f))
	joined, err1 := fabrics(m, f)
	runtime, err2 := containerRuntime(m)
	compute, err3 := computeRuntime(m)
	maps.Copy(k, joined)
	k["container.runtime"], k["compute.runtime"] = runtime, compute
	release, err4 := osRelease(m)
	if release["ID"] != "" {
		k["os.id"] = release["ID"]
	}
	if release["VERSION_ID"] != "" {
		k["os.version_id"] = release["VERSION_ID"]
	}
	return k, errors.Join(err1, err2, err3, err4)
}

// vendor is the vendor of the GPUs: of those listed by a library, else of those on the bus.
func vendor(f taskcatalog.Facts) string {
	if len(f.GPUs) > 0 {
		return f.GPUs[0].Vendor
	}
	found := map[string]bool{}
	for _, d := range f.PCI {
		found[GPUVendor(d)] = true
	}
	for _, name := range []string{"nvidia", "amd", "intel", "other"} {
		if found[name] {
			return name
		}
	}
	return "none"
}
