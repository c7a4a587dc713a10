package broker

import (
	"net"
	"net/netip"
	"strings"
	"time"
)

// PowerSelector is the property of a machine that selects a power credential override.
type PowerSelector string

// The selectors, the strongest first.
const (
	ByPXEMAC   PowerSelector = "pxe_mac"
	ByIPMIIP   PowerSelector = "ipmi_ip"
	ByHostname PowerSelector = "hostname"
)

// PowerOverride gives one machine other power credentials than its site's. The credentials are a
// secret; the record holds their path.
type PowerOverride struct {
	ID, SiteID           string
	SelectorType         PowerSelector
	SelectorValue        string // in canonical form
	VaultPath            string
	Status               SiteStatus
	LastUsedAt           time.Time // zero: never
	CreatedAt, UpdatedAt time.Time
}

// PowerOverridePath is the path of an override's credentials.
func PowerOverridePath(siteID, id string) string {
	return "maas-sites/" + siteID + "/power/overrides/" + id
}

// unusedAfter is how long an override may be unused before a warning.
const unusedAfter = 90 * 24 * time.Hour

// Unused reports whether no run has used the override for longer than unusedAfter.
func (o PowerOverride) Unused(now time.Time) bool {
	last := o.CreatedAt
	if o.LastUsedAt.After(last) {
		last = o.LastUsedAt
	}
	return now.Sub(last) > unusedAfter
}

// SelectorValue returns the canonical form of a value, in which values are kept and compared.
// Code: power_override_invalid.
func SelectorValue(by PowerSelector, value string) (string, error) {
	bad := func(want string) (string, error) {
		return "", Errorf(Invalid, "power_override_invalid", "cannot select by %s %q: the value is not a %s", by, cleanText(value), want)
	}
	switch by {
	case ByPXEMAC:
		mac, err := net.ParseMAC(value)
		if err != nil || len(mac) != 6 {
			return bad("MAC address such as 52:54:00:12:34:56")
		}
		return mac.String(), nil
	case ByIPMIIP:
		a, err := ParseIP(value)
		if err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() {
			return bad("IP address")
		}
		return a.Unmap().String(), nil
	case ByHostname:
		h, ok := CanonicalHostname(value)
		if !ok {
			return bad("hostname")
		}
		return h, nil
	}
	return "", Errorf(Invalid, "power_override_invalid", "cannot select by %q: not a selector (pxe_mac, ipmi_ip or hostname)",
		cleanText(string(by)))
}

// ParseIP reads an IP address. Surrounding blanks are allowed, and so are the brackets that URLs
// and BMCs put around an IPv6 address.
func ParseIP(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok && strings.Contains(inner, ":") {
			text = inner
		}
	}
	return netip.ParseAddr(text)
}

// CanonicalHostname returns a hostname in lower case and without the final dot of a DNS name, and
// whether the name is a valid hostname.
func CanonicalHostname(name string) (string, bool) {
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
	return name, len(name) <= 253 && hostnameForm.MatchString(name)
}

// SelectPowerOverride finds the active override for a machine, first by pxe_mac, then by ipmi_ip,
// then by hostname. An empty value selects nothing. false: the site's default credentials apply.
func SelectPowerOverride(all []PowerOverride, pxeMAC, ipmiIP, hostname string) (PowerOverride, bool) {
	for _, s := range []struct {
		by    PowerSelector
		value string
	}{{ByPXEMAC, pxeMAC}, {ByIPMIIP, ipmiIP}, {ByHostname, hostname}} {
		value, err := SelectorValue(s.by, s.value)
		if err != nil {
			continue
		}
		for _, o := range all {
			if o.Status == SiteActive && o.SelectorType == s.by && o.SelectorValue == value {
				return o, true
			}
		}
	}
	return PowerOverride{}, false
}
