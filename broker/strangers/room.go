package strangers

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Limits bound a Room.
type Limits struct {
	Source int           // guests of one source
	All    int           // guests of all sources together
	Named  int           // guests of one name that was vouched for; 0: any number
	Settle time.Duration // how long a guest is safe from newcomers, except from a source with fewer guests
}

// Room counts guests; see the package.
type Room struct {
	limits Limits
	known  *Known

	mu        sync.Mutex
	strangers map[netip.Prefix][]*Guest // by source, the oldest first
	count     int                       // of strangers
	named     map[string][]*Guest       // by name
	leaving   int                       // sent away, and not gone yet
}

// NewRoom makes an empty room. Rooms that share a Known know each other's sources.
func NewRoom(limits Limits, known *Known) *Room {
	return &Room{limits: limits, known: known, strangers: map[netip.Prefix][]*Guest{}, named: map[string][]*Guest{}}
}

// Guest is a connection or request that was let in.
type Guest struct {
	room   *Room
	source netip.Prefix
	name   string // empty: a stranger
	since  time.Time
	evict  func()
	busy   bool
	sent   bool // sent away
	gone   bool
}

// Enter lets a newcomer in until Leave, if necessary in place of another guest. evict ends the
// newcomer when its place is needed; evict must not block, and is called at most once. false: there
// is no place.
func (r *Room) Enter(from net.Addr, evict func()) (*Guest, bool) {
	g := &Guest{room: r, source: sourceOf(from), since: time.Now(), evict: evict} // how long it is here: the machine's own clock
	r.mu.Lock()
	out, ok := r.placeFor(g)
	if out != nil {
		r.send(out)
	}
	if ok {
		r.strangers[g.source] = append(r.strangers[g.source], g)
		r.count++
	}
	r.mu.Unlock()
	if out != nil {
		out.evict()
	}
	return g, ok
}

// placeFor says whether there is a place for a newcomer, and which guest must give it up.
func (r *Room) placeFor(g *Guest) (out *Guest, ok bool) {
	names := r.known.at(g.source)
	if r.leaving >= r.limits.All && names == 0 {
		return nil, false
	}
	mine := r.strangers[g.source]
	switch {
	case len(mine) >= r.limits.Source+names:
		out = first(mine, r.settled(g))
	case r.count >= r.limits.All:
		out = r.evictionCandidate(g, names > 0)
	default:
		return nil, true
	}
	return out, out != nil
}

// settled is the latest arrival time of a guest that counts as settled when g arrives.
func (r *Room) settled(g *Guest) time.Time { return g.since.Add(-r.limits.Settle) }

// evictionCandidate finds the guest that makes way in a full room: a guest of the unknown source
// with the most guests or, for a known newcomer when all sources are known, of the known source
// with the most.
func (r *Room) evictionCandidate(g *Guest, known bool) *Guest {
	heaviest, unknown := r.heaviest(func(source netip.Prefix) bool { return r.known.at(source) == 0 }), true
	if heaviest == nil && known {
		heaviest, unknown = r.heaviest(func(netip.Prefix) bool { return true }), false
	}
	before := r.settled(g)
	if known && unknown || len(heaviest) > len(r.strangers[g.source])+1 {
		before = g.since.Add(1) // whatever its age
	}
	return first(heaviest, before)
}

// heaviest returns the guests of the source with the most guests. Among equals the source whose
// guests came first wins.
func (r *Room) heaviest(among func(netip.Prefix) bool) (most []*Guest) {
	for source, has := range r.strangers {
		more := len(has) > len(most) || len(has) == len(most) && has[0].since.Before(most[0].since)
		if more && among(source) {
			most = has
		}
	}
	return most
}

// first is the guest to go first among the guests that came before a time: the oldest idle guest,
// or else the oldest. nil: all came later.
func first(of []*Guest, before time.Time) *Guest {
	var busy *Guest
	for _, g := range of {
		if !g.since.Before(before) {
			break
		}
		if !g.busy {
			return g
		}
		if busy == nil {
			busy = g
		}
	}
	return busy
}

// send removes a guest from its list and counts the guest as leaving.
func (r *Room) send(g *Guest) {
	r.remove(g)
	g.sent = true
	r.leaving++
}

func (r *Room) remove(g *Guest) {
	if g.name != "" {
		r.named[g.name] = without(r.named[g.name], g)
		if len(r.named[g.name]) == 0 {
			delete(r.named, g.name)
		}
		return
	}
	r.count--
	r.strangers[g.source] = without(r.strangers[g.source], g)
	if len(r.strangers[g.source]) == 0 {
		delete(r.strangers, g.source)
	}
}

func without(of []*Guest, g *Guest) []*Guest {
	i := slices.Index(of, g)
	return slices.Delete(of, i, i+1)
}

// Leave gives up the place. Leave may be called again.
func (g *Guest) Leave() {
	r := g.room
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case g.gone:
	case g.sent:
		r.leaving--
	default:
		r.remove(g)
	}
	g.gone = true
}

// Busy says whether the guest is being answered: such a guest makes way after idle ones.
func (g *Guest) Busy(is bool) {
	g.room.mu.Lock()
	defer g.room.mu.Unlock()
	g.busy = is
}

// Recognise says that the guest has proved its name, but still counts as a stranger until it acts.
// Its source is known from now on, and the guest makes way after others.
func (g *Guest) Recognise(name string) {
	g.room.known.heard(name, g.source)
	g.Busy(true)
}

// Vouch says that the guest has proved its name. If the name has too many guests, another guest of
// the name makes way.
func (g *Guest) Vouch(name string) {
	r := g.room
	r.known.heard(name, g.source)
	r.mu.Lock()
	if g.sent || g.gone || g.name == name {
		r.mu.Unlock()
		return
	}
	r.remove(g)
	g.name = name
	var out *Guest
	if r.limits.Named > 0 && len(r.named[name]) >= r.limits.Named {
		out = first(r.named[name], time.Now())
	}
	if out != nil {
		r.send(out)
	}
	r.named[name] = append(r.named[name], g)
	r.mu.Unlock()
	if out != nil {
		out.evict()
	}
}
