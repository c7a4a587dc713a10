package nodeapi

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// A broker that was started again takes so many nodes at a time that it does not know, and
// tells the others when to come; those that it knows it answers meanwhile.
func TestNodesThatComeAtOnceArePutOff(t *testing.T) {
	b := newBroker(t)
	known, other := b.idles(1), b.idles(2)
	b.contacts.mu.Lock()
	delete(b.contacts.nodes, other.id) // as after a start
	b.contacts.mu.Unlock()
	var leaves []func()
	for range maxArrivals {
		leave, _ := b.arrivals.enter()
		leaves = append(leaves, leave)
	}
	before := b.db.Statements()
	a := other.get(other.path("/tasks/wait?lanes="))
	if a.status != 503 || !strings.Contains(string(a.body), codeBusy) {
		t.Fatalf("status %d, %s", a.status, a.body)
	}
	if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 3 {
		t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
	}
	if a.closed {
		t.Error("its connection is closed: to open another costs more than to keep it")
	}
	if asked := b.db.Statements() - before; asked > 3 { // the broker's own
		t.Errorf("to put it off took %d statements", asked)
	}
	known.idlePoll()
	for _, leave := range leaves {
		leave()
	}
	other.idlePoll()
}

// The more are put off, the longer the time over which they are told to come.
func TestAHerdIsSpread(t *testing.T) {
	var s arrivals
	for range maxArrivals {
		s.enter()
	}
	const herd = 10000
	second := map[time.Duration]int{}
	for range herd {
		leave, putOff := s.enter()
		if leave != nil || putOff < time.Second || putOff > maxPutOff {
			t.Fatalf("put off by %v", putOff)
		}
		second[putOff.Truncate(time.Second)]++
	}
	for at, n := range second {
		if n > 4*arrivalRate {
			t.Errorf("%d of them are to come in the %vth second", n, at.Seconds())
		}
	}
	if len(second) < herd/arrivalRate/2 {
		t.Errorf("they are spread over %d seconds", len(second))
	}
}
