package strangers

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// at is an address in the form of connections.
func at(host string) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), 4000))
}

// hall is a room with named guests.
type hall struct {
	*Room
	t   testing.TB
	out map[string]bool // by the test's name of the guest
}

func newHall(t testing.TB, l Limits) *hall {
	return &hall{Room: NewRoom(l, NewKnown()), t: t, out: map[string]bool{}}
}

// enter lets in a guest that must get in, a nanosecond after the guest before.
func (h *hall) enter(name, host string) *Guest {
	h.t.Helper()
	time.Sleep(time.Nanosecond) // of the bubble
	var g *Guest
	g, ok := h.Enter(at(host), func() { h.out[name] = true; g.Leave() })
	if !ok {
		h.t.Fatalf("%s from %s is refused", name, host)
	}
	return g
}

func (h *hall) refuses(host string) {
	h.t.Helper()
	time.Sleep(time.Nanosecond)
	if _, ok := h.Enter(at(host), func() {}); ok {
		h.t.Errorf("one more from %s is let in", host)
	}
}

// gone checks which guests had to go.
func (h *hall) gone(names ...string) {
	h.t.Helper()
	if len(h.out) != len(names) {
		h.t.Errorf("gone are %v, want %v", h.out, names)
	}
	for _, name := range names {
		if !h.out[name] {
			h.t.Errorf("gone are %v, want %v", h.out, names)
		}
	}
}

func TestASourceIsAnAddressOrAWholeNetworkOfIPv6(t *testing.T) {
	for host, want := range map[string]string{
		"192.0.2.7":                  "192.0.2.7/32",
		"::ffff:192.0.2.7":           "192.0.2.7/32",
		"2001:db8:1:2:3:4:5:6":       "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::1":       "2001:db8:1:2::/64",
		"fe80::1%eth0":               "fe80::/64",
		"2001:db8:1:3:3:4:5:6":       "2001:db8:1:3::/64",
		"::ffff:192.0.2.8":           "192.0.2.8/32",
		"64:ff9b::c000:207%anything": "64:ff9b::/64",
	} {
		if got := sourceOf(at(host)).String(); got != want {
			t.Errorf("%s counts as %s, want %s", host, got, want)
		}
	}
	for _, strange := range []net.Addr{nil, &net.UnixAddr{Name: "@", Net: "unix"}} {
		if got := sourceOf(strange); got.IsValid() {
			t.Errorf("%v counts as %v", strange, got)
		}
	}
}

// The owner of a whole /64 is one source.
func TestANetworkOfIPv6HasTheShareOfOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, Limits{Source: 2, All: 100, Settle: time.Second})
		h.enter("a", "2001:db8::1")
		h.enter("b", "2001:db8::2")
		h.refuses("2001:db8::3")
		h.enter("neighbour", "2001:db8:0:1::3")
		h.gone()
	})
}

func TestASourceGivesUpItsOwnOldestGuest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, Limits{Source: 2, All: 100, Settle: time.Second})
		h.enter("busy", "192.0.2.1").Busy(true)
		h.enter("idle", "192.0.2.1")
		h.enter("other", "192.0.2.2")
		time.Sleep(2 * time.Second)
		h.enter("c", "192.0.2.1")
		h.gone("idle")
		h.enter("d", "192.0.2.1") // c is too young, and only busy is left
		h.gone("idle", "busy")
	})
}

// A flood from some sources costs only these sources, however fast the flood is.
func TestTheSourceWithTheMostGuestsMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, Limits{Source: 4, All: 8, Settle: time.Second})
		h.enter("honest", "192.0.2.9")
		for n := range 7 {
			h.enter(fmt.Sprint(n), fmt.Sprintf("192.0.2.%d", 1+n%2))
		}
		h.enter("late", "192.0.2.8")
		h.gone("0") // of the source with four guests
		for range 20 {
			h.refuses("192.0.2.2") // has no fewer guests than the others, and all are young
		}
		h.gone("0")
	})
}

func TestAKnownSourceGetsInBeforeStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, Limits{Source: 4, All: 4, Settle: time.Second})
		node := h.enter("node", "192.0.2.9")
		node.Vouch("n-1")
		for n := range 4 {
			h.enter(fmt.Sprint(n), fmt.Sprintf("192.0.2.%d", 1+n))
		}
		h.refuses("192.0.2.8")
		for n := range 4 {
			h.enter("again"+fmt.Sprint(n), "192.0.2.9")
		}
		h.gone("0", "1", "2", "3")
		time.Sleep(2 * time.Second)
		h.refuses("192.0.2.8") // does not take a known source's place
		h.gone("0", "1", "2", "3")
	})
}

// Many nodes behind one address may be there at once, but a single node may not take as many
// places.
func TestWhoIsVouchedForIsCountedByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(t, Limits{Source: 1, All: 2, Named: 2, Settle: time.Second})
		for n := range 10 {
			h.enter("first"+fmt.Sprint(n), "192.0.2.1").Vouch(fmt.Sprint("node-", n))
			h.enter("second"+fmt.Sprint(n), "192.0.2.1").Vouch(fmt.Sprint("node-", n))
		}
		h.gone()
		h.enter("third", "192.0.2.1").Vouch("node-3")
		h.gone("first3")
	})
}

// Guests that were sent away and have not gone yet count too.
func TestWhoIsSentAwayCountsUntilHeIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRoom(Limits{Source: 1, All: 3, Settle: time.Second}, NewKnown())
		var all []*Guest
		for range 4 {
			g, ok := r.Enter(at("192.0.2.1"), func() {})
			if !ok {
				t.Fatal("refused")
			}
			all = append(all, g)
			time.Sleep(2 * time.Second)
		}
		if _, ok := r.Enter(at("192.0.2.2"), func() {}); ok {
			t.Error("a stranger is let in beside three that are going")
		}
		all[0].Leave()
		all[0].Leave()
		if _, ok := r.Enter(at("192.0.2.2"), func() {}); !ok {
			t.Error("a stranger is refused beside two that are going")
		}
	})
}

func TestNothingIsKeptOfWhoHasLeft(t *testing.T) {
	r := NewRoom(Limits{Source: 4, All: 8, Named: 2}, NewKnown())
	for n := range 1000 {
		g, ok := r.Enter(at(fmt.Sprintf("2001:db8:0:%x::1", n)), func() {})
		if !ok {
			t.Fatal("refused")
		}
		if n%2 == 0 {
			g.Vouch("node-1") // a node that moves
		}
		g.Leave()
		g.Vouch("node-2")
	}
	if len(r.strangers)+len(r.named)+r.count+r.leaving != 0 {
		t.Errorf("%d sources, %d names, %d strangers, %d leaving", len(r.strangers), len(r.named), r.count, r.leaving)
	}
	if len(r.known.sources) != 2 || len(r.known.names) > 2 {
		t.Errorf("known are %v", r.known.sources)
	}
}
