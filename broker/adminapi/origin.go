package adminapi

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	maxUserAgent = 200
	maxForwarded = 2048 // bytes of X-Forwarded-For that are read, from its end
)

// maxProxies bounds what is compared with the address of each request.
const maxProxies = 64

// ParseProxies reads addresses and prefixes of proxies. A prefix of all addresses is refused: everybody could then say
// which address a request came from. Code: config_invalid.
func ParseProxies(texts []string) (proxies []netip.Prefix, err error) {
	if len(texts) > maxProxies {
		return nil, broker.Errorf(broker.Invalid, "config_invalid", "cannot use proxies: there are %d, and %d at most", len(texts), maxProxies)
	}
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if at, wrong := netip.ParseAddr(text); wrong == nil {
			at = plainAddress(at)
			p, err = at.Prefix(at.BitLen())
		}
		if err != nil || p.Bits() == 0 {
			return nil, broker.Errorf(broker.Invalid, "config_invalid",
				"cannot use proxy %q: write an address or a prefix, such as 192.0.2.8 or 192.0.2.0/28", taskcatalog.Clean(text, 60))
		}
		proxies = append(proxies, p.Masked())
	}
	return proxies, nil
}

// originOf is the origin of the audit rows of a request.
func (a *API) originOf(r *http.Request) *store.Origin {
	o := &store.Origin{UserAgent: taskcatalog.Clean(r.UserAgent(), maxUserAgent)}
	if from := a.addressOf(r); from.IsValid() {
		o.Source = from.String()
	}
	return o
}

// addressOf is the address of a request's sender. Each proxy adds the address that it was reached from to the end of
// X-Forwarded-For, and the sender chooses what stands before. So the header is read from its end, as long as the
// address so far is that of a proxy in the config.
func (a *API) addressOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	at := plainAddress(peer.Addr())
	told := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	told = told[max(len(told)-maxForwarded, 0):]
	for a.isProxy(at) && told != "" {
		var last string
		if i := strings.LastIndexByte(told, ','); i >= 0 {
			told, last = told[:i], told[i+1:]
		} else {
			told, last = "", told
		}
		before, ok := forwardedAddress(strings.TrimSpace(last))
		if !ok {
			break // what a proxy did not write as an address says nothing of those before
		}
		at = before
	}
	return at
}

func (a *API) isProxy(at netip.Addr) bool {
	return slices.ContainsFunc(a.c.Proxies, func(p netip.Prefix) bool { return p.Contains(at) })
}

// forwardedAddress reads an entry of X-Forwarded-For: an address, or, as some proxies write, an address with a port.
func forwardedAddress(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddr(text); err == nil {
		return plainAddress(at), true
	}
	at, err := netip.ParseAddrPort(text)
	return plainAddress(at.Addr()), err == nil
}

// plainAddress is an address without its zone, which only the machine of that interface understands.
func plainAddress(at netip.Addr) netip.Addr { return at.Unmap().WithZone("") }
