package broker

import (
	"maps"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// DefaultProfile is the name of the profile that is created with a site.
const DefaultProfile = "default"

// Profile is a named set of policies at a site. A run copies the policy when it starts.
type Profile struct {
	ID, SiteID  string
	Name        string
	Description string
	Status      SiteStatus
	Policy      Policy
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// NewProfile is an active profile with the default policy.
func NewProfile(id, siteID, name string) Profile {
	return Profile{ID: id, SiteID: siteID, Name: name, Status: SiteActive, Policy: DefaultPolicy()}
}

// Check refuses an invalid profile. Code: profile_invalid.
func (p *Profile) Check() error {
	bad := func(format string, args ...any) error {
		return Errorf(Invalid, "profile_invalid", "cannot store profile %s: "+format, append([]any{cleanText(p.Name)}, args...)...)
	}
	switch {
	case !SiteNameForm.MatchString(p.Name) || idForm.MatchString(p.Name):
		return bad("its name is 1 to 63 of a-z, 0-9 and '-', and no id")
	case len(p.Description) > 500 || taskcatalog.Clean(p.Description, 1000) != p.Description:
		return bad("its description is too long or has control characters")
	case p.Status != SiteActive && p.Status != SiteDisabled:
		return bad("status %q is neither active nor disabled", cleanText(string(p.Status)))
	}
	if why := p.Policy.refused(); why != "" {
		return bad("%s", why)
	}
	return nil
}

var systemdMinutes = strings.NewReplacer("minutes", "m", "minute", "m", "min", "m", "hours", "h", "hour", "h", "hr", "h", "seconds", "s",
	"second", "s", "sec", "s", " ", "")

// SyncInterval reads an interval in systemd's notation: 15m, 1h, "1h 30min".
func SyncInterval(text string) (time.Duration, error) {
	d, err := time.ParseDuration(systemdMinutes.Replace(text))
	if err != nil || d < time.Minute || d > 24*time.Hour || d%time.Second != 0 || taskcatalog.Clean(text, 32) != text {
		return 0, Errorf(Invalid, "profile_invalid", "hardware_sync_interval %q is not a time between 1m and 24h", cleanText(text))
	}
	return d, nil
}

// PolicyOf returns the policy for a run at the site: the profile's policy, completed with the
// site's settings where the profile sets none.
func (s Site) PolicyOf(p Profile) Policy {
	q := p.Policy
	q.StageRetries = maps.Clone(q.StageRetries)
	for to, from := range map[*string]string{
		&q.DistroSeries: s.DistroSeries, &q.Architecture: s.Architecture, &q.PXEIface: s.PXEIface, &q.NodePXEIface: s.NodePXEIface,
	} {
		if *to == "" {
			*to = from
		}
	}
	vid := s.PXEVLANVID
	if q.PXEVLANVID != nil {
		vid = *q.PXEVLANVID
	}
	q.PXEVLANVID = &vid
	return q
}
