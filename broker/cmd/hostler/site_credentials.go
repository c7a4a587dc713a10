package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func siteCredentialsCommand(a *app) *cobra.Command {
	var s api.SiteCredentials
	var token, power, deploy, ca string
	c := &cobra.Command{
		Use: "credentials SITE", Short: "store a site's credentials, after MAAS accepted the token", Args: exactly("SITE"),
		Long: `Store a site's credentials among the broker's secrets: the API key of a MAAS
administrator, the login of BMCs, and the deploy user's password if the site
requires one. Credentials that are not given stay unchanged.

The token is tried at the site's address before anything is stored. The address and
the CA of a site with a token can be changed only here: with --api-base-url and
--ca-cert-file, and a token that is tried there. A new token is used from the next
call on. Each secret file must be readable by its owner alone; - is stdin, for one
of them.`,
		Example: "  hostler site credentials dc1 --maas-token-file maas.key --power-user root --power-password-file bmc.pw\n  hostler site credentials dc1 --api-base-url https://10.0.0.2:5443/MAAS --maas-token-file maas.key",
		RunE: func(c *cobra.Command, args []string) error {
			if token == "" && power == "" && deploy == "" && s.PowerUser == "" && s.APIBaseURL == "" {
				return usage("no credentials are given (use --maas-token-file, --power-user with --power-password-file, or --deploy-password-file)")
			}
			if ca != "" {
				raw, err := a.readBounded(ca)
				if err != nil {
					return err
				}
				s.CACert = string(raw)
			}
			stdin := 0
			for _, f := range []struct {
				path string
				into *string
			}{{token, &s.MAASToken}, {power, &s.PowerPassword}, {deploy, &s.DeployPassword}} {
				if f.path == "-" {
					stdin++
				}
				if stdin > 1 {
					return usage("only one of the files can be stdin")
				}
				if err := a.readSecretLine(f.path, f.into); err != nil {
					return err
				}
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			set, err := remote.SetSiteCredentials(c.Context(), args[0], s)
			if err != nil {
				return err
			}
			return a.show(set, []string{set.Site.Name}, func(p *render.Page) {
				p.Line("stored for site " + set.Site.Name + ": " + strings.Join(set.Set, ", "))
				if set.MAASUser != "" {
					p.Line("the token is of " + set.MAASUser + ", accepted by MAAS " + set.MAASVersion + " at " + set.Site.APIBaseURL)
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&token, "maas-token-file", "", "`FILE` with the API key, consumer_key:token_key:token_secret")
	f.StringVar(&s.PowerUser, "power-user", "", "user name for the login to BMCs")
	f.StringVar(&power, "power-password-file", "", "`FILE` with the password of the power user")
	f.StringVar(&deploy, "deploy-password-file", "", "`FILE` with the deploy user's password")
	f.StringVar(&s.APIBaseURL, "api-base-url", "", "new address of the site, `URL`; the token is tried there")
	f.StringVar(&ca, "ca-cert-file", "", "PEM `FILE` of the CA that the site trusts from now on")
	reasonFlag(c, &s.Reason)
	return c
}

// readSecretLine reads a secret of one line; an empty path leaves into unchanged.
func (a *app) readSecretLine(path string, into *string) error {
	if path == "" {
		return nil
	}
	raw, err := a.readSecret(path)
	if err != nil {
		return err
	}
	defer clear(raw)
	line := strings.TrimRight(string(raw), "\r\n")
	if line == "" || strings.ContainsAny(line, "\r\n") {
		return broker.Errorf(broker.Invalid, "secret_malformed", "cannot use %s: it is not one line with the secret", path)
	}
	*into = line
	return nil
}

func siteProbeCommand(a *app) *cobra.Command {
	var profile string
	c := &cobra.Command{
		Use: "probe SITE", Short: "check whether a site is ready", Args: exactly("SITE"),
		Long: `Check whether a site is ready: MAAS's version, the token, both clocks, images and
what they are made from, rack controllers, DHCP where machines boot, the recorded
scripts, the sync interval. The command changes nothing. The exit status is 1 if
something keeps work from starting.`,
		Example: "  hostler site probe dc1\n  hostler site probe dc1 --profile careful -o json",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.ProbeSite(c.Context(), args[0], profile)
			if err != nil {
				return err
			}
			names, rows, failed := []string{}, [][]string{}, 0
			for _, check := range r.Checks {
				if check.Status == "fail" {
					failed++
					names = append(names, check.Check)
				}
				detail := check.Detail
				if check.NextStep != "" {
					detail += " (" + check.NextStep + ")"
				}
				rows = append(rows, []string{check.Check, check.Status, detail})
			}
			err = a.show(r, names, func(p *render.Page) { p.Table(render.Kept("CHECK", "STATUS", "DETAIL"), rows) })
			if err != nil || r.OK {
				return err
			}
			return broker.Errorf(broker.Unavailable, "site_not_ready", "site %s is not ready: %s failed of %d (see above)", r.Site,
				plural(failed, "check"), len(r.Checks))
		},
	}
	c.Flags().StringVar(&profile, "profile", "", "check only for profile `NAME`")
	return c
}
