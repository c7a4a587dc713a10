package turnover

import (
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

// acceptedBy says of each knob whether a policy still accepts what the certificate says was accepted by it.
// accept_erase_downgrade is asked anew, see acceptDowngrades.
var acceptedBy = map[string]func(broker.TurnoverPolicy) bool{
	"accept_network_disks": func(p broker.TurnoverPolicy) bool { return p.AcceptNetworkDisks },
	"accept_system_disk":   func(p broker.TurnoverPolicy) bool { return p.AcceptSystemDisk },
	"accept_maas_erase":    func(p broker.TurnoverPolicy) bool { return p.AcceptMAASErase },
}

// Lacks judges a certificate on record by another policy than the one of its turnover, with the judgement of
// its issue: codes of what it lacks now, and did not lack then. What a person accepted stays accepted. Where a
// policy accepts a disk no longer by one knob, and might by another of which the certificate does not speak,
// the certificate lacks it: the next turnover says so exactly. It implements store.JudgeCertificate.
func Lacks(file []byte, p broker.TurnoverPolicy) (codes []string) {
	c, err := certificate.Unverified(file)
	if err != nil {
		return []string{string(taskcatalog.CodeOf(err, pki.CodeMalformed))}
	}
	c.Policy = policyOf(p)
	for i := range c.Downgrades {
		d := &c.Downgrades[i]
		if d.AcceptedBy != "policy" {
			continue
		}
		if still := acceptedBy[d.Because]; still == nil || !still(p) {
			d.AcceptedBy, d.Because = "", ""
		}
	}
	acceptDowngrades(p.AcceptEraseDowngrade, c)
	for _, short := range c.Lacks() {
		if code := string(short.Code); !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return codes
}
