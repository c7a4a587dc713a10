package ipmi

import (
	"testing"

	"github.com/hostler/hostler/broker/machines"
)

func TestTheSerialNumberIsThatOfTheProduct(t *testing.T) {
	for _, c := range []struct {
		said, want string
		bad        bool
	}{
		{" Chassis Serial        : C-1\n Board Serial          : B-1\n Product Serial        : SER-0042\n", "SER-0042", false},
		{" Board Serial          : B-1\n", "", false},
		{" Product Serial        : To be filled by O.E.M.\n", "", false},
		{" Product Serial        : A1\n Product Serial        : A2\n", "", true},
		{" Product Extra         : x: Product Serial        : A2\n", "", false},
		{"", "", false},
	} {
		id, err := parseFRU([]byte(c.said))
		if id.Serial != c.want || (err != nil) != c.bad {
			t.Errorf("%q: %+v, %v", c.said, id, err)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	for _, s := range []string{"Chassis Power is on\n", "Chassis Power is off\n", " Product Serial        : SER-0042\n", "\x00:\n::\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := parseState(raw); (s == machines.Unknown) != (err != nil) {
			t.Errorf("%q: %s, %v", raw, s, err)
		}
		id, err := parseFRU(raw)
		if id.Serial != machines.Serial(id.Serial) || err != nil && id.Serial != "" {
			t.Errorf("%q: %+v, %v", raw, id, err)
		}
	})
}
