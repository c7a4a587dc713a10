package amd

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// CodeHiveIncomplete refuses a reset that would also reset GPUs that were not named.
const CodeHiveIncomplete taskcatalog.Code = "hive_incomplete"

// Reset resets GPUs. The driver resets a whole hive whichever of its GPUs is named, so all GPUs of
// a hive must be named, and a single call is made.
func (v *Vendor) Reset(uuids []string) error {
	s, err := v.session()
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, uuid := range uuids {
		d, _, err := s.find(uuid)
		if err != nil {
			return err
		}
		named[d.uuid] = true
	}
	hives := map[string]bool{}
	var asked []device
	for _, d := range s.devices {
		hive := s.hive(d)
		if named[d.uuid] && (hive == "" || !hives[hive]) {
			asked = append(asked, d)
			hives[hive] = true
		}
	}
	for _, d := range s.devices {
		if hive := s.hive(d); hive != "" && hives[hive] && !named[d.uuid] {
			return taskcatalog.Errorf(CodeHiveIncomplete,
				"cannot reset %s: GPU %s is in the same hive %s and would be reset with it (name it too)",
				strings.Join(slices.Sorted(slices.Values(uuids)), ", "), d.uuid, hive)
		}
	}
	for _, d := range asked {
		if err := s.reset(d.whole()).err("reset GPU " + d.uuid); err != nil {
			return err
		}
	}
	return nil
}

// CleanLocal runs the cleaner shader on each partition: registers and local data shares, not
// memory.
func (v *Vendor) CleanLocal(uuid string) error {
	s, d, part, err := v.on(uuid)
	if err != nil {
		return err
	}
	for i, p := range d.partitions {
		if part >= 0 && part != i {
			continue
		}
		if err := s.cleanLocal(p).err("run the cleaner shader on GPU " + d.instance(i)); err != nil {
			return err
		}
	}
	return nil
}
