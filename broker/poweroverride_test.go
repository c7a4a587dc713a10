package broker

import "testing"

func TestAHostnameHasOneFormHoweverItIsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"c07u43": "c07u43", "C07U43": "c07u43", "c07u43.": "c07u43", " c07u43.dc1.example. ": "c07u43.dc1.example", "XN--BCHER-KVA.example": "xn--bcher-kva.example",
		"c07u43..": "", ".": "", "": "", "bücher.example": "", "c07 u43": "", "-c07": "", "c07u43.\n.": "",
	} {
		if got, ok := CanonicalHostname(text); ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, ok, want)
		}
	}
}

func TestAnAddressMayStandInBrackets(t *testing.T) {
	for text, want := range map[string]string{
		"[fd00::ab]": "fd00::ab", " fd00::AB ": "fd00::ab", "10.9.0.1": "10.9.0.1",
		"[10.9.0.1]": "", "[fd00::ab": "", "fd00::ab]": "", "[[fd00::ab]]": "", "[]": "", "": "",
	} {
		if got, err := SelectorValue(ByIPMIIP, text); (err == nil) != (want != "") || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
}
