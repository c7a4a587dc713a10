package validate

import (
	"fmt"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// maxPerRow keeps the findings of one row from crowding out those of others.
const maxPerRow = 40

// list returns the part of a baseline that keeps the items of a row.
func list(b *taskcatalog.Baseline, row string) *[]string {
	switch row {
	case "processes":
		return &b.Processes
	case "listeners":
		return &b.Listeners
	case "modules":
		return &b.Modules
	case "mounts":
		return &b.Mounts
	case "bpf":
		return &b.BPF
	}
	return &b.Objects
}

// clean returns a name as the baseline keeps it: the name must survive JSON, and some names were
// chosen by a tenant.
func clean(key string) string { return taskcatalog.Clean(key, taskcatalog.MaxText) }

// has reports whether the baseline has the item.
func (v *validation) has(it item) bool {
	if v.base == nil || it.tenant || it.differs {
		return false
	}
	names := list(v.base, it.row)
	known, ok := v.baseKeys[names]
	if !ok {
		known = make(map[string]bool, len(*names))
		for _, n := range *names {
			known[n] = true
		}
		v.baseKeys[names] = known
	}
	return known[clean(it.key)]
}

// finishBaseline stores the names of all items in the baseline.
func (v *validation) finishBaseline(found [][]item, failed []error, result *taskcatalog.ValidateCleanResult) error {
	b := &v.now
	for i, c := range validationChecks {
		if c.rows[0] == taskcatalog.CheckAgent {
			continue // the agent is compared with its published package, not with a baseline
		}
		if failed[i] != nil {
			b.NotTaken = append(b.NotTaken, c.rows...)
		}
		v.made(c.rows, failed[i])
		for _, it := range found[i] {
			if !it.differs {
				names := list(b, it.row)
				*names = append(*names, clean(it.key))
			}
		}
	}
	for _, names := range []*[]string{&b.Processes, &b.Listeners, &b.Modules, &b.Mounts, &b.BPF, &b.Objects} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	for _, records := range v.files {
		for _, f := range records {
			if rowOf(f.Path) == "units" {
				b.Units = append(b.Units, f)
			} else {
				b.Files = append(b.Files, f)
			}
		}
	}
	sortFiles(b.Units)
	sortFiles(b.Files)
	digest, err := b.Digest()
	result.Baseline, result.BaselineDigest = b, digest
	return err
}

// judge reports the items that a clean node does not have. Without a baseline only an allocation's
// residue can be recognised.
func (v *validation) judge(found [][]item, failed []error, result *taskcatalog.ValidateCleanResult) error {
	for i, c := range validationChecks {
		for _, row := range c.rows {
			err := failed[i]
			switch {
			case err != nil || row == taskcatalog.CheckAgent:
			case v.base == nil:
				err = fmt.Errorf("the node has no baseline (take a baseline: hostler node baseline retake)")
			case slices.Contains(v.base.NotTaken, row):
				err = fmt.Errorf("not in the baseline, because it could not be read when the baseline was taken (take a new baseline: hostler node baseline retake)")
			}
			v.made([]string{row}, err)
			for _, it := range found[i] {
				if it.row == row && (it.tenant || it.partial || err == nil && !v.has(it)) {
					v.find(it)
				}
			}
		}
	}
	v.report.Judge()
	result.Verdict, result.Findings = v.report.Verdict, len(v.report.Findings)+v.report.FindingsOmitted
	if v.base == nil {
		return nil
	}
	digest, err := v.base.Digest()
	result.BaselineDigest = digest
	return err
}

func (v *validation) made(rows []string, err error) {
	for _, row := range rows {
		c := taskcatalog.Check{Name: row, Made: err == nil}
		if err != nil {
			c.Reason = clean(err.Error())
		} else if why, none := v.absent[row]; none {
			c.NotApplicable, c.Reason = true, clean(why)
		}
		v.report.Checks = append(v.report.Checks, c)
	}
}

func (v *validation) find(it item) {
	if v.perRow[it.row]++; v.perRow[it.row] > maxPerRow {
		v.report.FindingsOmitted++
		return
	}
	f := it.finding
	f.Check = it.row
	if f.Subject == "" {
		f.Subject = it.key
	}
	if f.NextAction == "" {
		f.NextAction = taskcatalog.ActionReimage
	}
	v.report.Find(f)
}
