package maas

import "testing"

func TestABMCsAddressHasOneFormHoweverMAASWasGivenIt(t *testing.T) {
	for text, want := range map[string]string{
		"10.9.0.1": "10.9.0.1", " 10.9.0.1 ": "10.9.0.1", "10.9.0.1:623": "10.9.0.1", "::ffff:10.9.0.1": "10.9.0.1", "https://10.9.0.1/redfish/v1": "10.9.0.1",
		"fd00::ab": "fd00::ab", "FD00:0::AB": "fd00::ab", "[fd00::ab]": "fd00::ab", "[FD00::AB]": "fd00::ab", "[fd00::ab]:623": "fd00::ab", "https://[fd00::ab]:8443/": "fd00::ab",
		"https://[fd00::ab]": "fd00::ab", "[fe80::ab%eth0]": "fe80::ab", "[::ffff:10.9.0.1]": "10.9.0.1",
		"bmc.example": "bmc.example", "[10.9.0.1]": "[10.9.0.1]", "[fd00::ab": "[fd00::ab", "fd00::ab]": "fd00::ab]", "[]": "[]", "": "",
	} {
		if got := BMCAddress(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
