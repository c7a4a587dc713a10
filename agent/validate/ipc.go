package validate

import (
	"context"
	"fmt"

	"github.com/hostler/hostler/taskcatalog"
)

// lookIPC finds System V objects by owner and kind: their numbers change, and so does the number of
// objects of a system service.
func lookIPC(ctx context.Context, v *validation) ([]item, error) {
	list, err := v.m.SysVIPC()
	if err != nil {
		return nil, err
	}
	var items []item
	for _, o := range list {
		uid := o.UID
		if v.knownUID(uid) {
			uid = o.CUID
		}
		it := item{
			row: "ipc", key: fmt.Sprintf("%s/of uid %d", o.Kind, uid), id: fmt.Sprintf("%s %d", o.Kind, o.ID),
			finding: taskcatalog.Finding{
				Subject: fmt.Sprintf("%s %d", o.Kind, o.ID), Detail: fmt.Sprintf("%d bytes", o.Bytes),
			},
		}
		if !v.knownUID(uid) {
			it.key = fmt.Sprintf("%s/%d of uid %d", o.Kind, o.ID, uid)
		}
		items = append(items, v.owner(it, uid, taskcatalog.ActionReimage))
	}
	for _, d := range []struct{ kind, dir string }{{"shm", "/dev/shm"}, {"mqueue", "/dev/mqueue"}} {
		found, err := v.entries(ctx, "ipc", "", d.dir, taskcatalog.ActionStorageCleanup, nil)
		items = append(items, found...)
		if err != nil {
			return items, err
		}
	}
	return items, nil
}
