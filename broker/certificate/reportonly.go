package certificate

import (
	"fmt"
	"slices"

	"github.com/hostler/hostler/taskcatalog"
)

// reportsOnly reports whether the policy has a check told and not counted.
func (c *Clean) reportsOnly(check string) bool { return slices.Contains(c.Policy.ReportOnly, check) }

// needless reports whether it costs nothing that a check was not made: the policy has
// it only told, or to have made it would be worth nothing, either. An agent that finds
// itself as it was published says nothing in the system that a tenant used; that it
// finds itself changed counts there, too.
func (c *Clean) needless(check string) bool {
	return c.reportsOnly(check) || check == taskcatalog.CheckAgent && environments[c.Environment] < environments[FreshOS]
}

// Passes reports whether the validation comes to clean but for checks that the policy
// has only told, or that are needless. A verdict that those checks do not explain
// stands as it is.
func (c *Clean) Passes() bool {
	v, explained := &c.Validation, taskcatalog.VerdictClean
	for _, check := range v.ChecksNotMade {
		if !c.needless(check.Name) {
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

// letPass are what the certificate must own up to: for each check that the policy has
// only told, what was found or not looked at.
func (c *Clean) letPass() []Exposure {
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
