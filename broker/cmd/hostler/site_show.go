package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func (a *app) showSite(s *api.Site) error {
	return a.show(s, []string{s.Name}, func(p *render.Page) {
		ca := "the system's authorities"
		if s.CACert != "" {
			ca = "its own authority"
		}
		if strings.HasPrefix(s.APIBaseURL, "http:") {
			ca = "nothing: the address is http, and the token crosses the network readable"
		}
		p.Fields("site", s.Name, "id", s.ID, "status", siteState(*s), "region", s.RegionCode,
			"maas", s.APIBaseURL, "trusts", ca,
			"pxe", fmt.Sprintf("%s of the server, VLAN %d, %s of a node", s.PXEIface, s.PXEVLANVID, s.NodePXEIface),
			"series", s.DistroSeries, "architecture", s.Architecture, "dns", strings.Join(s.UpstreamDNSServers, ", "),
			"deploy user", s.DeployUser, "reached at", s.DeploySSHIface, "its key", s.DeploySSHPublicKey,
			"issuer of certificates", s.IssuerOrganisation, "its contact", s.IssuerContact, "its trust file", s.IssuerTrustURL,
			"default profile", s.DefaultProfile, "created", moment(a, s.CreatedAt), "changed", moment(a, s.UpdatedAt))
		if len(s.Holds) > 0 {
			p.Title("What stands at it")
			holdTable(a, p, s.Holds)
		}
		p.Title("Secrets")
		rows := [][]string{}
		for _, row := range []struct {
			what, path string
			at         time.Time
		}{
			{"MAAS token", s.APITokenVaultPath, s.APITokenSetAt},
			{"power credentials", s.DefaultPowerCredsVaultPath, s.DefaultPowerCredsSetAt},
			{"deploy password", s.DeployPasswordVaultPath, s.DeployPasswordSetAt},
		} {
			set := "not set"
			if !row.at.IsZero() {
				set = moment(a, row.at)
			}
			rows = append(rows, []string{row.what, set, row.path})
		}
		p.Table([]render.Column{render.Keep("SECRET"), render.Keep("SET"), render.More("PATH")}, rows)
		if len(s.CommissioningScripts) > 0 {
			p.Title("Scripts that must be in MAAS")
			rows := [][]string{}
			for _, c := range s.CommissioningScripts {
				rows = append(rows, []string{c.Name, c.Version})
			}
			p.Table(render.Kept("SCRIPT", "VERSION"), rows)
		}
	})
}
