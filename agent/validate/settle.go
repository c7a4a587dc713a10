package validate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hostler/hostler/agent/host"
)

// repeatedCheck is a line of the table of looks, with the items that its looks have seen.
//
// An item of an unknown owner counts from any look: the system did not create it. An item of a
// known owner that the baseline does not have may be momentary work of the system, such as a
// process of a timer, and must be seen by two looks in a row. An item is recognised by its key or
// by its id; a key may hold a name chosen by its creator, an id never does.
//
// Looks go on until two in a row agree. A row that does not come to rest counts as not looked at: a
// person who moves a thing fast enough keeps it out of every look.
type repeatedCheck struct {
	v     *validation
	check check
	made  int    // looks
	sure  []item // counts whatever another look sees
	open  []item // seen by the last look: of known owners, and not in the baseline
	stays []item // items of open that the previous look saw too
	err   error
	done  bool
}

// maxLooks bounds the looks at a row that does not come to rest.
const maxLooks = 5

// A listing during which something moved is repeated at once, a few times: two looks are far apart,
// and the system moves something now and then.
const (
	maxListings = 6
	// listingPause is the pause before the first repetition and doubles each time: the last pauses
	// are longer than a tick of the clock that dates files.
	listingPause = 2 * time.Millisecond
)

// unstableError is the error of a look that does not count, because something moved meanwhile.
type unstableError struct{ what string }

func (r *unstableError) Error() string {
	return "cannot tell what is there: " + r.what + " (find and stop the program that causes this, then validate again)"
}

// listUntilStable repeats list until nothing moves during a listing. moved names what moved.
func listUntilStable(ctx context.Context, list func() (moved string, err error)) error {
	for n := 1; ; n++ {
		moved, err := list()
		if err != nil || moved == "" {
			return err
		}
		if n == maxListings {
			return &unstableError{moved}
		}
		if err := host.Wait(ctx, listingPause<<(n-1)); err != nil {
			return err
		}
	}
}

// look makes another look, and judges whether the row has come to rest.
func (s *repeatedCheck) look(ctx context.Context) {
	items, err := s.check.look(ctx, s.v)
	s.made++
	var moving *unstableError
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
	stays, came := s.divide(open, last)
	_, went := s.divide(last, open)
	s.stays = stays
	enough := s.v.takesBaseline || len(stays) > 0 || slices.ContainsFunc(s.sure, func(it item) bool { return !s.v.has(it) })
	switch {
	case moving != nil:
		s.done = enough || s.made == maxLooks
	case len(came)+len(went) == 0 || enough:
		s.done = true // an item that counts does so whatever another look sees
	case s.made == maxLooks:
		moving, s.done = &unstableError{append(came, went...)[0].name() + " came or went between two looks"}, true
	}
	if s.done && moving != nil && !s.v.takesBaseline {
		s.err = moving
	}
}

// counts reports whether an item counts whatever another look sees.
func (s *repeatedCheck) counts(it item) bool {
	return !s.check.settles || !s.v.takesBaseline && (it.tenant || it.stranger || s.v.has(it))
}

// divide divides items by whether the look at others saw them too. A baseline keeps keys, but no
// ids.
func (s *repeatedCheck) divide(items, others []item) (yes, no []item) {
	seen := marks(others)
	for _, it := range items {
		if seen[keyMark(it)] || !s.v.takesBaseline && seen[idMark(it)] {
			yes = append(yes, it)
		} else {
			no = append(no, it)
		}
	}
	return yes, no
}

// marks returns the marks by which items are recognised.
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

// result returns the items that count, and the reason why the row was not looked at. Certain items
// count all the same: a stranger's item and, in a row that did not come to rest, every sure item.
func (s *repeatedCheck) result() ([]item, error) {
	found := append(s.sure, s.stays...)
	if s.err == nil || s.v.base == nil {
		return found, s.err
	}
	var moving *unstableError
	rested := !errors.As(s.err, &moving)
	for i, it := range found {
		known := rested && !it.stranger || s.v.has(it) || slices.Contains(s.v.base.NotTaken, it.row)
		found[i].partial = it.partial || !known
	}
	return found, s.err
}

// name is the item's name for a person.
func (it item) name() string { return clean(cmp.Or(it.finding.Subject, it.key)) }
