package health

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Key names the verdicts of a report and their reasons, without figures and dates: two reports with the same
// key say the same. Drivers count, because an update of a driver is news.
func Key(r taskcatalog.HealthReport) string {
	var b strings.Builder
	reasons := func(all []taskcatalog.HealthReason) {
		for _, x := range all {
			value := x.Value
			if f, known := taskcatalog.HealthFieldNamed(x.Field); known && !f.Text {
				value = "" // a figure
			}
			fmt.Fprintf(&b, "\t%s %s %q\n", x.Verdict, x.Field, value)
		}
	}
	fmt.Fprintf(&b, "%s %s %q\n", r.Verdict, r.BootID, r.Drivers)
	reasons(r.Reasons)
	for _, g := range r.GPUs {
		fmt.Fprintf(&b, "%s %q %s %s\n", g.Vendor, g.UUID, g.PCIAddress, g.Verdict)
		reasons(g.Reasons)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return "sha256:" + hex.EncodeToString(sum[:])
}
