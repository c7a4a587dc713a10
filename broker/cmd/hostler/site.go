package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func siteCommand(a *app) *cobra.Command {
	return noun("site", "MAAS sites, with their credentials and policy", "  hostler site probe dc1",
		siteCreateCommand(a), siteListCommand(a), siteShowCommand(a), siteUpdateCommand(a),
		siteStatusCommand(a, "disable", "start no new work at a site; work in progress continues", string(broker.SiteDisabled)),
		siteStatusCommand(a, "enable", "let new work start at a site again", string(broker.SiteActive)),
		siteCredentialsCommand(a), siteProbeCommand(a), siteProfileCommand(a), sitePowerCommand(a), siteRoCECommand(a),
		siteReconcileCommand(a), siteTerminalPolicyCommand(a))
}

// siteFields are the flags of create and update.
func siteFields(a *app, c *cobra.Command) *fields {
	f := fieldsOf(c)
	f.text("region-code", "region_code", "the region that the site belongs to")
	f.text("api-base-url", "api_base_url", "`URL` of MAAS, such as https://10.0.0.2:5443/MAAS")
	ca := c.Flags().String("ca-cert-file", "", "PEM `FILE` of the CA to trust at an https address; empty: the CAs of the system")
	f.on("ca-cert-file", func(d client.Document) error {
		if *ca == "" { // an authority that the system trusts, or none at an http address
			d["ca_cert"] = ""
			return nil
		}
		raw, err := a.readBounded(*ca)
		d["ca_cert"] = string(raw)
		return err
	})
	f.text("pxe-iface", "pxe_iface", "interface of the MAAS server, such as ens19")
	f.number("pxe-vlan-vid", "pxe_vlan_vid", "VLAN of PXE; 0 is untagged")
	f.text("node-pxe-iface", "node_pxe_iface", "interface of a node, such as eno8303")
	f.text("distro-series", "distro_series", "image to deploy: ubuntu/noble or custom/IMAGE")
	f.text("architecture", "architecture", "such as amd64/generic")
	f.list("upstream-dns-server", "upstream_dns_servers", "`ADDRESS` of a DNS server")
	f.text("deploy-user", "deploy_user", "account that is created on every node")
	f.text("deploy-ssh-iface", "deploy_ssh_iface", "interface through which a node is reached first")
	f.text("issuer-organisation", "issuer_organisation", "organisation that issues the certificates of the site's machines")
	f.text("issuer-contact", "issuer_contact", "contact for readers of a certificate: a person, a mail address or a telephone number")
	f.text("issuer-trust-url", "issuer_trust_url", "https `URL` from which readers of a certificate fetch the trust file")
	scripts := c.Flags().StringArray("commissioning-script", nil, "`NAME=VERSION` of a script that must be in MAAS (may be repeated)")
	f.on("commissioning-script", func(d client.Document) error {
		list := []api.SiteScript{}
		for _, s := range *scripts {
			if s == "" {
				continue // an empty string empties the list
			}
			name, version, ok := strings.Cut(s, "=")
			if !ok {
				return usage("--commissioning-script takes NAME=VERSION")
			}
			list = append(list, api.SiteScript{Name: name, Version: version})
		}
		d["commissioning_scripts"] = list
		return nil
	})
	f.reason()
	return f
}

func siteCreateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "create SITE", Short: "create a site for a MAAS region", Args: exactly("SITE"),
		Long: `Create a site for a MAAS region, with a profile called default. SITE is also the
site's name on its nodes, and never changes. Next, run hostler site credentials,
then hostler site probe.`,
		Example: "  hostler site create dc1 --region-code eu-1 --api-base-url https://10.0.0.2:5443/MAAS --ca-cert-file maas-ca.pem --pxe-iface ens19 --pxe-vlan-vid 46 --node-pxe-iface eno8303",
	}
	f := siteFields(a, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := f.document()
		if err != nil {
			return err
		}
		d["name"] = args[0]
		remote, err := a.connect()
		if err != nil {
			return err
		}
		s, err := remote.CreateSite(c.Context(), d)
		if err != nil {
			return err
		}
		a.note("site %s is created; next, give it credentials: hostler site credentials %s --maas-token-file FILE --power-user U --power-password-file FILE", s.Name, s.Name)
		return a.showSite(s)
	}
	return c
}

func siteUpdateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "update SITE", Short: "change a site", Args: exactly("SITE"),
		Example: "  hostler site update dc1 --upstream-dns-server 10.0.0.53 --reason 'own resolver'\n  hostler site update dc1 --commissioning-script 50-burn-in=7\n  hostler site update dc1 --issuer-organisation 'Example Compute' --issuer-contact trust@example.com --issuer-trust-url https://example.com/hostler/trust.json --reason 'for auditors'",
	}
	f := siteFields(a, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		d, err := f.change()
		if err != nil {
			return err
		}
		return a.changeSite(c, args[0], d)
	}
	return c
}

func siteStatusCommand(a *app, verb, short, status string) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: verb + " SITE", Short: short, Args: exactly("SITE"),
		Example: "  hostler site " + verb + " dc1 --reason 'new switches'",
		RunE: func(c *cobra.Command, args []string) error {
			return a.changeSite(c, args[0], client.Document{"status": status, "reason": reason})
		},
	}
	reasonFlag(c, &reason)
	return c
}

func (a *app) changeSite(c *cobra.Command, ref string, d client.Document) error {
	remote, err := a.connect()
	if err != nil {
		return err
	}
	s, err := remote.UpdateSite(c.Context(), ref, d)
	if err != nil {
		return err
	}
	return a.showSite(s)
}

func siteListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the sites", Args: exactly(), Example: "  hostler site list",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Sites(c.Context())
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, s := range l.Items {
				names = append(names, s.Name)
				token := "not set"
				if !s.APITokenSetAt.IsZero() {
					token = "set " + render.Ago(s.APITokenSetAt, a.now())
				}
				rows = append(rows, []string{s.Name, siteState(s), s.RegionCode, s.DistroSeries, token, s.APIBaseURL})
			}
			return a.show(l, names, func(p *render.Page) {
				p.Table([]render.Column{
					render.Keep("SITE"), render.Keep("STATUS"), render.More("REGION"), render.More("SERIES"),
					render.Keep("TOKEN"), render.More("MAAS"),
				}, rows)
				if len(rows) == 0 {
					a.note("no sites (create one: hostler site create)")
				}
			})
		},
	}
}

// siteState is a site's status, with the holds that keep it from work.
func siteState(s api.Site) string {
	state := []string{s.Status}
	for _, h := range s.Holds {
		word := map[string]string{"freeze": "frozen"}[h.Kind]
		if word == "" {
			word = h.Kind
		}
		if !slices.Contains(state, word) {
			state = append(state, word)
		}
	}
	return strings.Join(state, ", ")
}

func siteShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show SITE", Short: "show a site", Args: exactly("SITE"),
		Example: "  hostler site show dc1",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.Site(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showSite(s)
		},
	}
}
