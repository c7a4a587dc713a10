package adminapi

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
)

// Only a downgrade that the certificate names and nobody has accepted can be accepted: exactly one
// disk, never a disk whose name merely begins alike.
func TestADowngradeIsFoundByTheNameOnTheCertificate(t *testing.T) {
	all := []certificate.Downgrade{
		{Device: "S5X0A11", Asked: certificate.MethodOverwrite, Did: certificate.MethodTrim},
		{Device: "BOSS-1", Asked: certificate.MethodOverwrite, Did: certificate.MethodFileDeletion, AcceptedBy: "policy", Because: "accept_system_disk"},
		{Device: "S5X0A12", Asked: certificate.MethodOverwrite, Did: certificate.MethodTrim},
	}
	for device, want := range map[string]string{
		"S5X0A12": "", " s5x0a12 ": "", "BOSS-1": "downgrade_accepted", "S5X0A1": "downgrade_unknown", "": "downgrade_unknown", "all": "downgrade_unknown", "S5X0A12\x1b[2J": "downgrade_unknown",
	} {
		d, err := downgradeNamed(all, "r-1.1", device)
		switch {
		case want == "" && (err != nil || d.Device != "S5X0A12"):
			t.Errorf("%q: %+v, %v", device, d, err)
		case want != "" && (broker.AsError(err).Code != want || d.Device != "" || strings.Contains(err.Error(), "\x1b")):
			t.Errorf("%q: %+v, %v", device, d, err)
		}
	}
	if _, err := downgradeNamed(all, "r-1.1", "else"); !strings.Contains(err.Error(), "S5X0A11, S5X0A12") {
		t.Errorf("it does not say which there are: %v", err)
	}
	if _, err := downgradeNamed(all[1:2], "r-1.1", "else"); broker.AsError(err).Code != "downgrade_unknown" {
		t.Errorf("%v", err)
	}
}
