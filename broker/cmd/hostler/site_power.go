package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func sitePowerCommand(a *app) *cobra.Command {
	return noun("power-override", "power credentials of single machines", "  hostler site power-override list dc1",
		sitePowerAddCommand(a), sitePowerListCommand(a),
		sitePowerStatusCommand(a, "disable", "use the site's credentials again, and keep the override", string(broker.SiteDisabled)),
		sitePowerStatusCommand(a, "enable", "use an override again", string(broker.SiteActive)),
		sitePowerRemoveCommand(a))
}

func sitePowerAddCommand(a *app) *cobra.Command {
	var put api.PowerOverridePut
	var password string
	by := map[broker.PowerSelector]*string{broker.ByPXEMAC: new(string), broker.ByIPMIIP: new(string), broker.ByHostname: new(string)}
	c := &cobra.Command{
		Use: "add SITE", Short: "set power credentials for one machine", Args: exactly("SITE"),
		Long: `Set power credentials for one machine, named by one of --pxe-mac, --ipmi-ip and
--hostname. If several overrides match a machine, the first of these flags takes
precedence. Repeating the command for the same machine replaces its credentials.`,
		Example: "  hostler site power-override add dc1 --ipmi-ip 10.176.16.128 --power-user ADMIN --power-password-file bmc.pw --reason 'old firmware'",
		RunE: func(c *cobra.Command, args []string) error {
			for name, value := range by {
				if *value == "" {
					continue
				}
				if put.SelectorType != "" {
					return usage("use only one of --pxe-mac, --ipmi-ip and --hostname")
				}
				put.SelectorType, put.SelectorValue = string(name), *value
			}
			if put.SelectorType == "" || put.PowerUser == "" || password == "" {
				return usage("use --power-user, --power-password-file, and --pxe-mac, --ipmi-ip or --hostname for the machine")
			}
			if err := a.readSecretLine(password, &put.PowerPassword); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			o, err := remote.PutPowerOverride(c.Context(), args[0], put)
			if err != nil {
				return err
			}
			return a.showOverrides(o, []api.PowerOverride{*o})
		},
	}
	f := c.Flags()
	f.StringVar(by[broker.ByPXEMAC], "pxe-mac", "", "the machine that boots from this `MAC`")
	f.StringVar(by[broker.ByIPMIIP], "ipmi-ip", "", "the machine whose BMC is at this `ADDRESS`")
	f.StringVar(by[broker.ByHostname], "hostname", "", "the machine of this name")
	f.StringVar(&put.PowerUser, "power-user", "", "user name for the login to its BMC")
	f.StringVar(&password, "power-password-file", "", "`FILE` with the password of the power user, or - for stdin")
	reasonFlag(c, &put.Reason)
	return c
}

func sitePowerListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list SITE", Short: "list a site's overrides, the strongest first", Args: exactly("SITE"),
		Example: "  hostler site power-override list dc1",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.PowerOverrides(c.Context(), args[0])
			if err != nil {
				return err
			}
			unused := []string{}
			for _, o := range l.Items {
				if o.Unused {
					unused = append(unused, o.ID)
				}
			}
			if len(unused) > 0 {
				a.note("warning: not used in 90 days: %s (hostler site power-override remove %s ID)", strings.Join(unused, ", "), args[0])
			}
			return a.showOverrides(l, l.Items)
		},
	}
}

func sitePowerStatusCommand(a *app, verb, short, status string) *cobra.Command {
	change := api.PowerOverrideChange{Status: status}
	c := &cobra.Command{
		Use: verb + " SITE OVERRIDE", Short: short, Args: exactly("SITE", "OVERRIDE"),
		Example: "  hostler site power-override " + verb + " dc1 6f1c0f9e-7d0b-4a55-9c57-2f3f3f0f7f10",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			o, err := remote.ChangePowerOverride(c.Context(), args[0], args[1], change)
			if err != nil {
				return err
			}
			return a.showOverrides(o, []api.PowerOverride{*o})
		},
	}
	reasonFlag(c, &change.Reason)
	return c
}

func sitePowerRemoveCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "remove SITE OVERRIDE", Short: "remove an override and its secret", Args: exactly("SITE", "OVERRIDE"),
		Example: "  hostler site power-override remove dc1 6f1c0f9e-7d0b-4a55-9c57-2f3f3f0f7f10 --reason 'new firmware' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "remove power override %s of site %s? Its credentials are deleted", args[1], args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			o, err := remote.RemovePowerOverride(c.Context(), args[0], args[1], reason)
			if err != nil {
				return err
			}
			return a.show(o, []string{o.ID}, func(p *render.Page) { p.Line("removed: " + o.SelectorType + " " + o.SelectorValue) })
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func (a *app) showOverrides(v any, items []api.PowerOverride) error {
	ids, rows := []string{}, [][]string{}
	for _, o := range items {
		used := "never"
		if !o.LastUsedAt.IsZero() {
			used = render.Ago(o.LastUsedAt, a.now())
		}
		ids = append(ids, o.ID)
		rows = append(rows, []string{o.ID, o.SelectorType, o.SelectorValue, o.Status, used})
	}
	return a.show(v, ids, func(p *render.Page) {
		p.Table([]render.Column{
			render.ID("OVERRIDE"), render.More("BY"), render.Keep("VALUE"), render.Keep("STATUS"), render.Main("USED"),
		}, rows)
		if len(rows) == 0 {
			a.note("no overrides: the site's power credentials apply to all machines")
		}
	})
}
