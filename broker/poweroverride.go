package broker

import (
	"net"
	"net/netip"
	"strings"
	"time"
)

// PowerSelector is what a power credential override is found by.
type PowerSelector string

// The selectors, the strongest first.
const (
	ByPXEMAC   PowerSelector = "pxe_mac"
	ByIPMIIP   PowerSelector = "ipmi_ip"
	ByHostname PowerSelector = "hostname"
)

// PowerOverride gives one machine other power credentials than its site's. They
// are a secret; the record holds their path.
type PowerOverride struct {
	ID, SiteID           string
	SelectorType         PowerSelector
	SelectorValue        string // in its one form
	VaultPath            string
	Status               SiteStatus
	LastUsedAt           time.Time // zero: never
	CreatedAt, UpdatedAt time.Time
}

// PowerOverridePath is where an override's credentials are.
func PowerOverridePath(siteID, id string) string {
	return "maas-sites/" + siteID + "/power/overrides/" + id
}

// unusedAfter is how long an override may lie there before it is warned of.
const unusedAfter = 90 * 24 * time.Hour

// Unused reports whether nothing has asked for the override in a long time.
func (o PowerOverride) Unused(now time.Time) bool {
	last := o.CreatedAt
	if o.LastUsedAt.After(last) {
		last = o.LastUsedAt
	}
	return now.Sub(last) > unusedAfter
}

// SelectorValue brings a value into the one form in which it is kept and
// compared. Code: power_override_invalid.
func SelectorValue(by PowerSelector, value string) (string, error) {
	bad := func(want string) (string, error) {
		return "", Errorf(Invalid, "power_override_invalid", "cannot select by %s %q: it is no %s", by, said(value), want)
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
	return "", Errorf(Invalid, "power_override_invalid", "cannot select by %q (pxe_mac, ipmi_ip or hostname)", said(string(by)))
}

// ParseIP reads an IP address that may have blanks around it, and one of IPv6 in the
// brackets in which URLs and BMCs have it.
func ParseIP(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok && strings.Contains(inner, ":") {
			text = inner
		}
	}
	return netip.ParseAddr(text)
}

// CanonicalHostname is a hostname in lower case and without the dot that ends a name of
// DNS, if it is one.
func CanonicalHostname(name string) (string, bool) {
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
	return name, len(name) <= 253 && hostnameForm.MatchString(name)
}

// SelectPowerOverride finds the active override that goes before all others for
// a machine: by pxe_mac, ipmi_ip, hostname, in this order. What is empty selects
// nothing; false: the site's default holds.
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
