package onboarding

import (
	"testing"

	"github.com/hostler/hostler/broker/maas"
)

// A status of a future MAAS matches no condition: the owner of such a machine is unknown.
func TestAMachineOfAnUnknownStatusIsSomebodys(t *testing.T) {
	for status := maas.FailedTesting + 1; status < maas.FailedTesting+10; status++ {
		if at := (&place{Machine: maas.Machine{SystemID: "abc123", Status: status}}); at.available() {
			t.Errorf("a machine of status %d is nobody's", status)
		}
	}
}
