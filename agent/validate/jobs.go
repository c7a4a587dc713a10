package validate

import (
	"context"
	"path"
	"slices"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// lookJobs finds jobs that users left to run later, by owner and by name.
func lookJobs(ctx context.Context, v *validation) ([]item, error) {
	names, err := v.tree(ctx, []string{"/var/spool/cron", "/var/spool/at", "/var/lib/systemd/linger"}, func(name string, mode uint32) bool {
		return passive(mode) && (name == "/var/spool/at/.SEQ" || name == "/var/spool/cron/atjobs/.SEQ") // at's counter
	})
	if err != nil {
		return nil, err
	}
	records, err := v.records(ctx, names, false)
	if err != nil {
		return nil, err
	}
	var items []item
	for _, f := range records {
		if v.takesBaseline {
			break
		}
		if i := slices.IndexFunc(v.accounts, func(a host.Account) bool {
			return a.UID == f.UID ||
				a.Username == path.Base(f.Path)
		}); i >= 0 {
			items = append(items, v.owner(item{row: "jobs", key: f.Path}, v.accounts[i].UID, taskcatalog.ActionRevokeUser))
		}
	}
	for _, it := range v.compareFiles("jobs", records, func(name string) bool { return rowOf(name) == "jobs" }, rowOf) {
		if !slices.ContainsFunc(items, func(of item) bool { return of.key == it.key }) {
			items = append(items, it)
		}
	}
	return items, nil
}
