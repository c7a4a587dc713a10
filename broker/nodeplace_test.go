package broker

import (
	"strings"
	"testing"
)

func TestAPlaceHasOnlyWordsThatASelectorCanName(t *testing.T) {
	for name, c := range map[string]struct {
		place NodePlace
		wrong string
	}{
		"nothing":          {NodePlace{}, ""},
		"everything":       {NodePlace{"az-1", "hall_2", "3", "c07", 60, "feed.a"}, ""},
		"a capital":        {NodePlace{Rack: "C07"}, `rack "C07"`},
		"a comma":          {NodePlace{Zone: "a,b"}, `zone "a,b"`},
		"an equals sign":   {NodePlace{Domain: "a=b"}, "domain"},
		"a space":          {NodePlace{Room: "hall 2"}, "room"},
		"a leading hyphen": {NodePlace{Row: "-1"}, "row"},
		"64 characters":    {NodePlace{Rack: strings.Repeat("a", 64)}, "rack"},
		"63 characters":    {NodePlace{Rack: strings.Repeat("a", 63)}, ""},
		"unit 61":          {NodePlace{Unit: 61}, "unit 61"},
		"unit -1":          {NodePlace{Unit: -1}, "unit -1"},
	} {
		err := c.place.Check()
		if (err != nil) != (c.wrong != "") || err != nil && (AsError(err).Code != "place_invalid" || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAChangeOfAPlaceLeavesTheOtherParts(t *testing.T) {
	none, rack, unit, zero := "", "c08", 12, 0
	was := NodePlace{Zone: "az1", Room: "hall", Row: "r", Rack: "c07", Unit: 3, Domain: "feed-a"}
	for name, c := range map[string]struct {
		change NodePlaceChange
		want   NodePlace
	}{
		"nothing":       {NodePlaceChange{}, was},
		"one part":      {NodePlaceChange{Rack: &rack, Unit: &unit}, NodePlace{"az1", "hall", "r", "c08", 12, "feed-a"}},
		"parts removed": {NodePlaceChange{Zone: &none, Unit: &zero, Domain: &none}, NodePlace{Room: "hall", Row: "r", Rack: "c07"}},
	} {
		if got := was.With(c.change); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
