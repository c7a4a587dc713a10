package chaintest

import (
	"time"

	"github.com/hostler/hostler/broker/chain"
)

// knownLists: an engine gets the runs of its known lists, and runs older than list names. A run
// of another list is claimed only after a long time untouched, and never before it has begun.
func knownLists(s *subject) {
	insert := func(id, list string) {
		r := newRun(id, s.Store.Now())
		r.List = list
		s.ok(s.Insert(s.ctx, []chain.NewRun{r}, nil))
	}
	claim := func(id string, lists ...string) *chain.Record {
		r, err := s.Claim(s.ctx, chain.Claim{Owner: "me", Lease: time.Minute, Kinds: []string{ScriptKind}, Lists: lists})
		s.ok(err)
		switch {
		case r == nil && id != "":
			s.Fatalf("nothing was claimed of %v, want %s", lists, id)
		case r != nil && r.ID != id:
			s.Fatalf("claimed %s of %v, want %q", r.ID, lists, id)
		}
		return r
	}
	insert("r-1", "newer")
	insert("r-2", "newer")
	insert("r-3", "")
	r3 := claim("r-3", "older")
	claim("", "older")
	r1 := claim("r-1", "newer", "older")
	s.same("the list of a claimed run", r1.List, "newer")
	r1.List = "newest"
	s.put(r1, 0)
	s.put(r3, 24*time.Hour)
	s.same("the list of a saved run", s.read("r-1").List, "newest")
	s.Advance(chain.Strange - time.Second)
	claim("", "older")
	s.Advance(time.Second)
	claim("r-1", "older") // no broker that knows the list was there
	claim("", "older")    // r-2 has not begun, and waits
	claim("r-2", "newer")
}
