package adminapi

import (
	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/taskcatalog"
)

// diffBaselines compares two baselines check by check.
func diffBaselines(was, is *taskcatalog.Baseline) []resource.BaselineLine {
	lines := []resource.BaselineLine{}
	for _, c := range was.Diff(is) {
		l := resource.BaselineLine{Op: "changed", Kind: c.Check, What: c.Subject, Before: c.Was, After: c.Is}
		if _, there := was.Facts[c.Check][c.Subject]; !there {
			l.Op = "added"
		} else if _, there := is.Facts[c.Check][c.Subject]; !there {
			l.Op = "removed"
		}
		lines = append(lines, l)
	}
	return lines
}
