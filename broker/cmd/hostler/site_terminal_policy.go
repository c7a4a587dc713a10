package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func siteTerminalPolicyCommand(a *app) *cobra.Command {
	return noun("terminal-policy", "a site's policy for terminals on its nodes", "  hostler site terminal-policy show --site dc1",
		terminalPolicyShowCommand(a), terminalPolicySetCommand(a))
}

func terminalPolicyShowCommand(a *app) *cobra.Command {
	var site string
	c := &cobra.Command{
		Use: "show", Short: "show a site's policy", Args: exactly(),
		Example: "  hostler site terminal-policy show --site dc1\n  hostler site terminal-policy show -o json | jq .policy > policy.json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p, err := remote.TerminalPolicy(c.Context(), site)
			if err != nil {
				return err
			}
			return a.showTerminalPolicy(p)
		},
	}
	a.terminalPolicySite(c, &site)
	return c
}

func terminalPolicySetCommand(a *app) *cobra.Command {
	var put api.TerminalPolicyPut
	c := &cobra.Command{
		Use: "set FILE|-", Short: "replace a site's policy", Args: exactly("FILE|-"),
		Long: "Replace a site's policy with a JSON object. A field that is left out has its default.\n" +
			knobHelp(knobsOf[api.TerminalPolicyRules]()),
		Example: "  hostler site terminal-policy set policy.json --site dc1 --reason 'two hours are enough'",
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := a.readBounded(args[0])
			if err != nil {
				return err
			}
			if put.Policy, err = terminalRules(raw); err != nil {
				return broker.Errorf(broker.Invalid, "policy_invalid", "cannot use %s as a policy: %v", args[0], err)
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			p, err := remote.SetTerminalPolicy(c.Context(), put)
			if err != nil {
				return err
			}
			return a.showTerminalPolicy(p)
		},
	}
	a.terminalPolicySite(c, &put.Site)
	reasonFlag(c, &put.Reason)
	return c
}

func (a *app) terminalPolicySite(c *cobra.Command, into *string) {
	c.Flags().StringVar(into, "site", "", "site of the policy; without it, the policy of nodes without a site")
}

// terminalRules reads a policy; omitted fields take the default.
func terminalRules(raw []byte) (r api.TerminalPolicyRules, err error) {
	defaults, err := taskcatalog.Encode(broker.DefaultTerminalPolicy())
	if err == nil {
		err = taskcatalog.DecodeStrict(defaults, &r)
	}
	if err == nil {
		err = taskcatalog.DecodeStrict(raw, &r)
	}
	return r, err
}

func (a *app) showTerminalPolicy(v *api.TerminalPolicy) error {
	return a.show(v, nil, func(p *render.Page) {
		site, by := v.Site, v.UpdatedBy
		if site == "" {
			site = "(nodes without a site)"
		}
		if v.Default {
			by = "nobody: it is the default"
		}
		span := func(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }
		r := v.Policy
		root := "nobody"
		if r.AllowRoot {
			root = r.RootRole
		}
		p.Fields("site", site, "opened by", r.OpenRole+" and above", "as root by", root,
			"as any account", render.YesNo(r.AnyUser)+", for platform_admin",
			"lasts at most", span(r.MaxSeconds), "without a key", span(r.IdleSeconds), "without its operator", span(r.DetachSeconds),
			"what is typed is recorded", render.YesNo(r.RecordInput), "where recording fails", r.OnRecordingFailure,
			"recordings are kept", render.Span(time.Duration(r.RetentionDays)*24*time.Hour),
			"may set the title", render.YesNo(r.AllowTitle), "may set the clipboard", render.YesNo(r.AllowClipboard), "set by", by,
			"at", moment(a, v.UpdatedAt))
	})
}
