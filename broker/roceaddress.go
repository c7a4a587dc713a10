package broker

import (
	"net/netip"
	"strings"
	"time"
)

// RoCEAssignment is the address of one interface of a host at a site. The assignment exists
// before the node does.
type RoCEAssignment struct {
	ID, SiteID           string
	Hostname             string
	Interface            string
	IPv4CIDR             string // the address with its prefix length
	CreatedAt, UpdatedAt time.Time
}

// MaxRoCEItems bounds how many assignments are stored at once.
const MaxRoCEItems = 4096

// CheckRoCE refuses a list with an invalid entry, and brings each entry into its canonical form.
// Code: roce_invalid.
func CheckRoCE(items []RoCEAssignment) error {
	if len(items) == 0 || len(items) > MaxRoCEItems {
		return Errorf(Invalid, "roce_invalid", "cannot store %d RoCE assignments: 1 to %d are allowed at once", len(items), MaxRoCEItems)
	}
	type key struct{ hostname, iface string }
	at, addresses := map[key]int{}, map[netip.Addr]int{}
	for i := range items {
		r := &items[i]
		bad := func(format string, args ...any) error {
			return Errorf(Invalid, "roce_invalid", "cannot store RoCE assignments: item %d, "+format, append([]any{i + 1}, args...)...)
		}
		hostname, ok := CanonicalHostname(r.Hostname)
		if !ok {
			return bad("hostname %q is not valid", cleanText(r.Hostname))
		}
		r.Hostname = hostname
		if !ifaceForm.MatchString(r.Interface) {
			return bad("interface %q of %s is not valid", cleanText(r.Interface), r.Hostname)
		}
		prefix, why := roceAddress(r.IPv4CIDR)
		if why != "" {
			return bad("ipv4_cidr %q of %s %s", cleanText(r.IPv4CIDR), r.Hostname, why)
		}
		r.IPv4CIDR = prefix.String()
		if j, had := at[key{r.Hostname, r.Interface}]; had {
			return bad("%s of %s is item %d already", r.Interface, r.Hostname, j)
		}
		if j, had := addresses[prefix.Addr()]; had {
			return bad("%s is the address of item %d already", prefix.Addr(), j)
		}
		at[key{r.Hostname, r.Interface}], addresses[prefix.Addr()] = i+1, i+1
	}
	return nil
}

// roceAddress reads 172.30.9.61/31.
func roceAddress(text string) (netip.Prefix, string) {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	switch {
	case err != nil || !p.Addr().Is4():
		return p, "is not an IPv4 address with the length of its prefix, such as 172.30.9.61/31"
	case p.Bits() < 8:
		return p, "is wider than /8"
	case p.Addr().IsLoopback() || p.Addr().IsMulticast() || p.Addr().IsUnspecified() || p.Addr().IsLinkLocalUnicast():
		return p, "is not an address for an interface"
	case p.Bits() < 31 && (p.Addr() == p.Masked().Addr() || p.Addr() == lastOf(p)):
		return p, "is the network's or the broadcast address"
	}
	return p, ""
}

func lastOf(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 1 << (7 - bit%8)
	}
	return netip.AddrFrom4(a)
}
