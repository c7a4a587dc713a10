package machines

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestASerialThatManyMachinesHaveIsNone(t *testing.T) {
	for text, want := range map[string]string{
		"SER-0042": "SER-0042", " SER-0042 ": "SER-0042", "": "", "          ": "", "To be filled by O.E.M.": "", "Default string": "",
		"0000000000": "", "N/A": "", "System Serial Number": "", "a\x1bb": "", "müller": "", "0123456789": "", "A": "",
	} {
		if got := Serial(text); got != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

func TestAMachineIsComparedByWhatBothKnow(t *testing.T) {
	const uuid, turned = "4c4c4544-0033-4710-8032-c7c04f475931", "44454c4c-3300-1047-8032-c7c04f475931"
	for _, c := range []struct {
		name        string
		said, known Identity
		want        Comparison
	}{
		{"the same serial", Identity{Serial: "ser-1"}, Identity{Serial: "SER-1"}, SameMachine},
		{"another serial", Identity{Serial: "SER-2"}, Identity{Serial: "SER-1"}, OtherMachine},
		{"no serial", Identity{}, Identity{Serial: "SER-1"}, NotComparable},
		{"placeholders on both sides", Identity{Serial: "Default string"}, Identity{Serial: "Default string"}, NotComparable},
		{"the same UUID", Identity{UUID: uuid}, Identity{UUID: uuid}, SameMachine},
		{"the same UUID in the other byte order", Identity{UUID: turned}, Identity{UUID: uuid}, SameMachine},
		{"the same serial and another UUID", Identity{"SER-1", uuid}, Identity{"SER-1", "4c4c4544-0033-4710-8032-c7c04f475932"}, OtherMachine},
		{"the same UUID and another serial", Identity{"SER-2", uuid}, Identity{"SER-1", uuid}, OtherMachine},
		{"UUIDs of nobody", Identity{UUID: "00000000-0000-0000-0000-000000000000"}, Identity{UUID: "00000000-0000-0000-0000-000000000000"}, NotComparable},
		{"one has a serial, the other a UUID", Identity{Serial: "SER-1"}, Identity{UUID: uuid}, NotComparable},
	} {
		if got := Compare(c.said, c.known); got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
	}
}

func TestALoginIsNeverPrinted(t *testing.T) {
	l := NewLogin("root", "s3cret")
	raw, err := json.Marshal(map[string]any{"login": l})
	if err != nil {
		t.Fatal(err)
	}
	const want = "[BMC login] [BMC login] [BMC login] {\"login\":\"[BMC login]\"}"
	if got := fmt.Sprintf("%v %+v %#v %s", l, l, l, raw); got != want {
		t.Errorf("printed as %s", got)
	}
}
