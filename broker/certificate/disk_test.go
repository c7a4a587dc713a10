package certificate_test

import (
	"testing"

	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/taskcatalog"
)

// A downgrade is a method below the disk's ability; a method that is weak by itself is none.
func TestADiskIsDowngradedWhereItCouldDoBetter(t *testing.T) {
	for _, c := range []struct {
		asked, did certificate.Method
		less       bool
	}{
		{certificate.MethodNVMeSanitizeBlock, certificate.MethodNVMeSanitizeBlock, false},
		{certificate.MethodNVMeSanitizeBlock, certificate.MethodNVMeSanitizeCrypt, false},
		{certificate.MethodNVMeSanitizeBlock, certificate.MethodNVMeFormatCrypto, true},
		{certificate.MethodNVMeFormatCrypto, certificate.MethodNVMeFormatErase, true},
		{certificate.MethodATAEnhancedErase, certificate.MethodATASecureErase, true},
		{certificate.MethodATASecureErase, certificate.MethodOverwrite, true},
		{certificate.MethodOverwrite, certificate.MethodOverwrite, false},
		{certificate.MethodOverwrite, certificate.MethodNone, true},
		{certificate.MethodOverwrite, "magic", true},
		{certificate.MethodTrim, certificate.MethodTrim, false},
	} {
		d := purged()
		d.Asked, d.Method = c.asked, c.did
		d.Attempts = []taskcatalog.EraseAttempt{{Method: c.asked, Code: taskcatalog.CodeEraseRefused, Message: "it was refused"}}
		all := certificate.DiskDowngrades(erased(purged(), d))
		if (len(all) == 1) != c.less || c.less && (all[0] != certificate.Downgrade{Device: d.Serial, Asked: c.asked, Did: c.did, Reason: "it was refused"}) {
			t.Errorf("%s for %s: %+v", c.did, c.asked, all)
		}
	}
}

// A disk with only a world-wide name is known by that name.
func TestTheRowsOfAnErase(t *testing.T) {
	d := purged()
	d.Serial, d.Verdict, d.Code, d.Method = "", taskcatalog.VerdictNotClean, taskcatalog.CodeDiskWrite, certificate.MethodNone
	rows := certificate.Disks("t-1", erased(purged(), d))
	if len(rows) != 2 || rows[0].Name() != "S6ABNE0T" || rows[1].Name() != d.WWN || rows[1].Code != d.Code || *rows[0].CoveredBytes != total || !rows[1].Found || rows[1].Expected {
		t.Errorf("%+v", rows)
	}
}
