package inbox

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// tenant refuses what may destroy a tenant's data while there is one, unless the
// signed task names that tenant's allocation.
func (in *Inbox) tenant(typ taskcatalog.Type, params any) error {
	if typ.Class != taskcatalog.ClassDestructive {
		return nil
	}
	present, err := in.Allocations()
	if err != nil {
		return err
	}
	named := allocationOf(params)
	others := slices.DeleteFunc(slices.Clone(present), func(id string) bool { return id == named })
	// allocation.* ends one allocation's user and touches no other's.
	confined := strings.HasPrefix(typ.Name, "allocation.")
	if len(others) == 0 || confined && len(others) < len(present) {
		return nil
	}
	return taskcatalog.Errorf(taskcatalog.CodeAllocationPresent, "%s may destroy data of allocation %s, whose user is on this node (revoke it first, or name it)",
		typ.ID(), strings.Join(others, ", "))
}

// allocationOf reads the allocation that params name, if they can.
func allocationOf(params any) string {
	switch p := params.(type) {
	case *taskcatalog.RevokeUserParams:
		return p.AllocationID
	case *taskcatalog.StorageCleanupParams:
		return p.AllocationID
	case *taskcatalog.GPUScrubParams:
		return p.AllocationID
	case *taskcatalog.DiskEraseParams:
		return p.AllocationID
	case *taskcatalog.UninstallParams:
		return p.AllocationID
	}
	return ""
}

// needs lists the capabilities of the type and those that these params add.
func needs(typ taskcatalog.Type, params any) []string {
	names := slices.Clone(typ.Capabilities)
	if p, ok := params.(*taskcatalog.StorageCleanupParams); ok && p.Scope != "local" {
		names = append(names, "weka")
	}
	return names
}
