package certificate

import (
	"fmt"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// reportsOnly reports whether the policy only reports a check.
func (c *Clean) reportsOnly(check string) bool { return slices.Contains(c.Policy.ReportOnly, check) }

// ignorable reports whether a missing check is harmless: the policy only reports the check, or a
// good result would prove nothing. An unchanged agent proves nothing in a tenant's system; a
// changed agent counts there, too.
func (c *Clean) ignorable(check string) bool {
	return c.reportsOnly(check) || check == taskcatalog.CheckAgent && environments[c.Environment] < environments[FreshOS]
}

// Passes reports whether the validation is clean apart from checks that the policy only reports,
// and from needless checks. A verdict that such checks do not explain stands.
func (c *Clean) Passes() bool {
	v, explained := &c.Validation, taskcatalog.VerdictClean
	for _, check := range v.ChecksNotMade {
		if !c.ignorable(check.Name) {
			return false
		}
		explained = taskcatalog.VerdictInconclusive
	}
	for _, f := range c.Findings {
		if !c.reportsOnly(f.Check) {
			return false
		}
		explained = taskcatalog.VerdictNotClean
	}
	return c.FindingsOmitted == 0 && v.Verdict == explained
}

// reportedExposures returns the exposures for checks that the policy only reports: for each check
// its findings, or the missing inspection.
func (c *Clean) reportedExposures() []Exposure {
	var all []Exposure
	for _, check := range c.Policy.ReportOnly {
		findings := 0
		for _, f := range c.Findings {
			if f.Check == check {
				findings++
			}
		}
		not := slices.ContainsFunc(c.Validation.ChecksNotMade, func(n taskcatalog.Check) bool { return n.Name == check })
		what := ""
		switch {
		case findings > 0 && not:
			what = fmt.Sprintf("%d found to differ from the baseline, and not all of it could be looked at", findings)
		case findings > 0:
			what = fmt.Sprintf("%d found to differ from the baseline", findings)
		case not:
			what = "it could not be looked at"
		default:
			continue
		}
		all = append(all, Exposure{ExposureReportedOnly, check + ": " + what + ", which the site's policy lets pass"})
	}
	return all
}
