//go:build !race

package turnover_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/test/maassim"
)

// places makes the site, with the settings for turnovers.
func (s *simulation) places() {
	s.site = broker.NewSite("site-1")
	s.site.Name, s.site.APIBaseURL, s.site.PXEIface, s.site.NodePXEIface, s.site.PXEVLANVID = "dc1", maassim.URL, "ens19", "eno8303", 46
	s.records.PutSite(s.site)
	s.credentials(s.region.APIKey())
	s.profile = broker.NewProfile("profile-1", s.site.ID, "default")
	s.sku = broker.NewSKU()
	s.sku.ID, s.sku.NICs = "h100.8gpu", []string{"eno8303", "eno8403"}
	p := &s.profile.Policy
	p.HardwareSyncInterval, p.RequireHWSync, p.AcceptSystemDisk, p.AcceptMAASErase = "5m", s.chance(30), true, s.chance(90)
	p.DrainTimeoutSeconds, p.ReleaseFallbackNoErase = pick(s, 120, 600), s.chance(60)
	p.RootRequiresReimage, p.TurnoverEnvironment = s.chance(70), pick(s, "tenant_os", "tenant_os", "tenant_os", "fresh_os")
	if s.chance(30) {
		p.StageRetries = map[string]int{}
		for _, stage := range slices.Concat(reimages, removals) {
			p.StageRetries[stage] = s.by.IntN(2)
		}
	}
}

func (s *simulation) credentials(token string) {
	s.t.Helper()
	key, err := maas.ParseKey(token)
	if err == nil {
		err = maas.PutToken(ctx, s.secrets, s.site, key)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// add adds a node with its machine, after an onboarding or an adoption; some nodes have no
// machine in MAAS.
func (s *simulation) add(n int) {
	b := &box{id: "n-" + strings.Repeat(string(rune('a'+n)), 16), hostname: fmt.Sprintf("c%02d", n), was: broker.Active}
	if s.chance(90) {
		h := maassim.Box(n)
		a := maassim.Arranged{
			Hostname: b.hostname, Hardware: h, Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", HWSync: true, Token: true, PowerOn: true,
			Annotations: map[string]string{"hostler-node": b.id, "hostler-run": "r0"},
		}
		if b.adopted = s.chance(15); b.adopted {
			a.Annotations = nil
		}
		if s.chance(15) {
			s.region.Inject(maassim.Fault{Kind: maassim.SyncStops, After: s.until(2 * time.Hour)})
		}
		b.serial, b.systemID = h.Serial, s.region.Arrange(a)
	}
	s.book.Add(b.id, 2)
	s.book.Change(b.id, func(m *turnovertest.Machine) {
		m.Hostname, m.MAASSystemID, m.SKU = b.hostname, b.systemID, s.sku.ID
		if b.systemID == "" {
			m.Site = ""
		}
		if s.chance(30) {
			m.Parts.Devices = append(m.Parts.Devices, broker.Device{Kind: broker.DeviceDisk, ID: "NVME-" + b.id, State: broker.DeviceFound})
			m.Parts.Facts.Disks = append(m.Parts.Facts.Disks, taskcatalog.DiskFacts{Name: "nvme0n1", Serial: "NVME-" + b.id, Model: "X", SizeBytes: 1 << 40})
		}
	})
	s.boxes = append(s.boxes, b)
}

// bystander is a machine outside Hostler.
func (s *simulation) bystander() {
	a := maassim.Arranged{Hostname: "c90", Hardware: maassim.Box(90), Status: pick(s, maassim.Ready, maassim.Deployed, maassim.Broken), Series: "ubuntu/noble", PowerOn: true}
	if a.Status == maassim.Deployed {
		a.Owner = pick(s, "admin", "bob")
	}
	s.bystanders[s.region.Arrange(a)] = true
}
