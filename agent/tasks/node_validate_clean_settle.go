package tasks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// settling is one line of the table of looks, with what its looks have seen.
//
// What is of an unknown owner counts from any look: nobody of the system made it.
// What is of a known owner and not in the baseline may be a moment's work of the
// system, such as a process of a timer, and must be there at two looks in a row. An
// item is known again by its key or by its id; a key may hold a name that its maker
// chose, and an id never does.
//
// Looks go on until two in a row agree. A row that does not come to rest was not
// looked at: whoever moves a thing fast enough keeps it out of every look.
type settling struct {
	v     *validation
	check check
	made  int    // looks
	sure  []item // counts whatever another look says
	open  []item // seen by the last look: of known owners, and not in the baseline
	stays []item // of open, what the look before saw, too
	err   error
	done  bool
}

// maxLooks bounds the looks at a row that does not come to rest.
const maxLooks = 5

// A listing that something moved in is made again at once, a few times: two looks are
// far apart, and the system moves something now and then.
const (
	maxListings = 6
	// listingPause is between two of them, each time twice as long: the last are longer
	// than a tick of the clock that dates files.
	listingPause = 2 * time.Millisecond
)

// unrest is why a look is none: something moved while it was made.
type unrest struct{ what string }

func (r *unrest) Error() string {
	return "cannot tell what is there: " + r.what + " (find what does that and end it, then validate again)"
}

// still makes a listing until nothing moves while it is made. list says what moved.
func still(ctx context.Context, list func() (moved string, err error)) error {
	for n := 1; ; n++ {
		moved, err := list()
		if err != nil || moved == "" {
			return err
		}
		if n == maxListings {
			return &unrest{moved}
		}
		if err := wait(ctx, listingPause<<(n-1)); err != nil {
			return err
		}
	}
}

// look looks once more, and judges whether the row has come to rest.
func (s *settling) look(ctx context.Context) {
	items, err := s.check.look(ctx, s.v)
	s.made++
	var moving *unrest
	if err != nil && !errors.As(err, &moving) {
		s.sure, s.stays, s.err, s.done = append(s.sure, items...), nil, err, true
		return
	}
	seen := marks(s.sure)
	var open []item
	for _, it := range items {
		switch {
		case !s.counts(it):
			open = append(open, it)
		case !seen[keyMark(it)] && !(it.stranger && seen[idMark(it)]):
			s.sure = append(s.sure, it)
		}
	}
	last := s.open
	if s.open = open; s.made == 1 {
		s.done = moving == nil && len(open) == 0
		return
	}
	stays, came := s.again(open, last)
	_, went := s.again(last, open)
	s.stays = stays
	enough := s.v.taking || len(stays) > 0 || slices.ContainsFunc(s.sure, func(it item) bool { return !s.v.has(it) })
	switch {
	case moving != nil:
		s.done = enough || s.made == maxLooks
	case len(came)+len(went) == 0 || enough:
		s.done = true // what counts, counts whatever a further look says
	case s.made == maxLooks:
		moving, s.done = &unrest{append(came, went...)[0].name() + " came or went between two looks"}, true
	}
	if s.done && moving != nil && !s.v.taking {
		s.err = moving
	}
}

// counts reports whether an item counts whatever another look says.
func (s *settling) counts(it item) bool {
	return !s.check.settles || !s.v.taking && (it.tenant || it.stranger || s.v.has(it))
}

// again divides items by whether the look at others saw them, too. A baseline keeps
// keys, and no id.
func (s *settling) again(items, others []item) (yes, no []item) {
	seen := marks(others)
	for _, it := range items {
		if seen[keyMark(it)] || !s.v.taking && seen[idMark(it)] {
			yes = append(yes, it)
		} else {
			no = append(no, it)
		}
	}
	return yes, no
}

// marks are what items are known again by.
func marks(items []item) map[string]bool {
	seen := make(map[string]bool, 2*len(items))
	for _, it := range items {
		seen[keyMark(it)] = true
		if it.id != "" {
			seen[idMark(it)] = true
		}
	}
	return seen
}

func keyMark(it item) string { return it.row + "\x00" + it.key }

func idMark(it item) string { return it.row + "\x00\x00" + it.id }

// result is what counts, and why the row was not looked at. What is certain counts all
// the same: a stranger's thing, and in a row without rest whatever was seen for certain.
func (s *settling) result() ([]item, error) {
	found := append(s.sure, s.stays...)
	if s.err == nil || s.v.base == nil {
		return found, s.err
	}
	var moving *unrest
	rested := !errors.As(s.err, &moving)
	for i, it := range found {
		known := rested && !it.stranger || s.v.has(it) || slices.Contains(s.v.base.NotTaken, it.row)
		found[i].despite = it.despite || !known
	}
	return found, s.err
}

// name is what a person knows the item by.
func (it item) name() string { return clean(cmp.Or(it.finding.Subject, it.key)) }
