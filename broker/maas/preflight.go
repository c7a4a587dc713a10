package maas

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts. A warning prevents no run.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// Check is one line of a report.
type Check struct {
	Name     string // address, clock, api_key, …
	Verdict  Verdict
	Detail   string
	NextStep string // empty where nothing is to be done
}

// Report is the result of all checks of a site.
type Report struct {
	Version string // of MAAS; empty: not reached
	Checks  []Check
}

// Failed lists the checks that prevent work at the site.
func (r Report) Failed() []Check {
	var out []Check
	for _, c := range r.Checks {
		if c.Verdict == Fail {
			out = append(out, c)
		}
	}
	return out
}

func (r *Report) add(name string, v Verdict, next, format string, args ...any) {
	if v == OK {
		next = ""
	}
	r.Checks = append(r.Checks, Check{Name: name, Verdict: v, Detail: fmt.Sprintf(format, args...), NextStep: next})
}

// Preflight checks a site before work begins there by one of the profiles: its record, and the
// state of MAAS. It changes nothing. Where MAAS or the secrets cannot be reached, the failed check
// is the last line.
func (s *Sites) Preflight(ctx context.Context, site broker.Site, profiles []broker.Profile, overrides []broker.PowerOverride) Report {
	var r Report
	r.record(site, profiles, overrides, s.Now())
	if _, err := PowerAt(ctx, s.Secrets, site, site.PowerPath); err != nil {
		r.add("power_credentials", Fail, "hostler site credentials "+site.Name+" --power-user U --power-password-file FILE", "%s",
			errorDetail(err))
	} else {
		r.add("power_credentials", OK, "", "the site has its own")
	}
	region, err := s.Region(ctx, site)
	if err != nil {
		r.add("credentials", Fail, "hostler site credentials "+site.Name+" --maas-token-file FILE", "%s", errorDetail(err))
		return r
	}
	r.probe(ctx, region, site, profiles)
	return r
}

// errorDetail returns an error's text without its next action, which NextStep gives.
func errorDetail(err error) string {
	text := broker.AsError(err).Message
	if i := strings.LastIndex(text, " ("); i > 0 && strings.HasSuffix(text, ")") {
		text = text[:i]
	}
	return text
}

// record checks the broker's own records.
func (r *Report) record(site broker.Site, profiles []broker.Profile, overrides []broker.PowerOverride, now time.Time) {
	if site.Status == broker.SiteActive {
		r.add("site", OK, "", "%s is active", site.Name)
	} else {
		r.add("site", Fail, "hostler site enable "+site.Name, "%s is %s: no new run begins", site.Name, site.Status)
	}
	for _, p := range profiles {
		if p.Status != broker.SiteActive {
			r.add("profile", Fail, "hostler site profile update "+site.Name+" "+p.Name+" --status active", "profile %s is %s", p.Name,
				p.Status)
		}
	}
	if strings.HasPrefix(site.APIBaseURL, "http:") {
		r.add("address", Warn, "install a certificate in MAAS, and set the site's https address and ca_cert",
			"%s is http: the token crosses the network unencrypted", site.APIBaseURL)
	} else {
		r.add("address", OK, "", "%s", site.APIBaseURL)
	}
	for _, o := range overrides {
		if o.Unused(now) {
			r.add("power_override", Warn, "hostler site power-override remove "+site.Name+" "+o.ID,
				"the override for %s %s was not used in 90 days", o.SelectorType, o.SelectorValue)
		}
	}
}
