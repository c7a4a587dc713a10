package inbox

import (
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// tenant refuses tasks that may destroy a tenant's data while a tenant is present, unless the
// signed task names this tenant's allocation.
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
	// allocation.* ends the user of a single allocation and touches no other user.
	confined := strings.HasPrefix(typ.Name, "allocation.")
	if len(others) == 0 || confined && len(others) < len(present) {
		return nil
	}
	return taskcatalog.Errorf(taskcatalog.CodeAllocationPresent,
		"%s may destroy data of allocation %s, whose user is on this node (revoke the allocation first, or name it in the task)",
		typ.ID(), strings.Join(others, ", "))
}

// allocationOf returns the allocation named in params, if any.
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

// needs lists the capabilities required by the type and by these params.
func needs(typ taskcatalog.Type, params any) []string {
	names := slices.Clone(typ.Capabilities)
	if p, ok := params.(*taskcatalog.StorageCleanupParams); ok && p.Scope != "local" {
		names = append(names, "weka")
	}
	return names
}
