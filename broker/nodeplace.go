package broker

import (
	"strconv"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// NodePlace is where a machine stands within its site. Each part is optional. A word is unique in its
// site: two racks with the same word count as one rack.
type NodePlace struct {
	Zone   string `json:"zone,omitempty"`
	Room   string `json:"room,omitempty"`
	Row    string `json:"row,omitempty"`
	Rack   string `json:"rack,omitempty"`
	Unit   int    `json:"unit,omitzero"`    // lowest rack unit, from 1; 0: not known
	Domain string `json:"domain,omitempty"` // failure domain: what fails together, such as the nodes of one power feed
}

// NodePlaceChange changes parts of a place. Nil leaves a part; an empty word or 0 removes it.
type NodePlaceChange struct {
	Zone, Room, Row, Rack *string
	Unit                  *int
	Domain                *string
}

// MaxRackUnit is the highest unit of a rack that a place may name.
const MaxRackUnit = 60

// PlaceWord is the form of a word of a place.
var PlaceWord = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// PlaceLevels are the parts of a place that many nodes may share, from large to small.
var PlaceLevels = []string{"zone", "room", "row", "rack", "domain"}

// At returns a part of the place by its name; empty: the part is not known. False: a place has no
// part of that name.
func (p NodePlace) At(level string) (word string, ok bool) {
	switch level {
	case "zone":
		return p.Zone, true
	case "room":
		return p.Room, true
	case "row":
		return p.Row, true
	case "rack":
		return p.Rack, true
	case "domain":
		return p.Domain, true
	case "unit":
		if p.Unit == 0 {
			return "", true
		}
		return strconv.Itoa(p.Unit), true
	}
	return "", false
}

// Check refuses a place that a selector could not name. Code: place_invalid.
func (p NodePlace) Check() error {
	for _, level := range PlaceLevels {
		if word, _ := p.At(level); word != "" && !PlaceWord.MatchString(word) {
			return Errorf(Invalid, "place_invalid",
				"cannot use %s %q: a word is up to 63 of a-z, 0-9, '.', '_' and '-', and begins with a letter or a digit", level,
				taskcatalog.Clean(word, 80))
		}
	}
	if p.Unit < 0 || p.Unit > MaxRackUnit {
		return Errorf(Invalid, "place_invalid", "cannot use unit %d: a rack has the units 1 to %d (0 removes the unit)", p.Unit, MaxRackUnit)
	}
	return nil
}

// With returns the place after a change.
func (p NodePlace) With(c NodePlaceChange) NodePlace {
	setPart(&p.Zone, c.Zone)
	setPart(&p.Room, c.Room)
	setPart(&p.Row, c.Row)
	setPart(&p.Rack, c.Rack)
	setPart(&p.Unit, c.Unit)
	setPart(&p.Domain, c.Domain)
	return p
}

func setPart[T any](part *T, to *T) {
	if to != nil {
		*part = *to
	}
}
