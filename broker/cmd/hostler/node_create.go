package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func nodeCreateCommand(a *app) *cobra.Command {
	var n api.NodeCreate
	var labels []string
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "create --hostname H",
		Short: "create a node record, and print what the machine runs to enrol",
		Long: `Create a node record, and print what the machine runs to enrol: user-data that works
unchanged, or one line to paste. The output contains a one-time enrolment token and
is shown once, so keep it private.`,
		Example: "  hostler node create --hostname gpu-07 --site dc1 > user-data\n  hostler node create --hostname gpu-07 --bootstrap command",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if n.Hostname == "" {
				return usage("cannot create a node without a name (use --hostname)")
			}
			if n.Bootstrap != "cloud-init" && n.Bootstrap != "command" {
				return usage("cannot bootstrap by %q (--bootstrap takes cloud-init or command)", n.Bootstrap)
			}
			var ok bool
			if n.Labels, ok = client.Labels(labels); !ok {
				return usage("--label takes key=value")
			}
			n.TTLSeconds = int64(ttl / time.Second)
			remote, err := a.connect()
			if err != nil {
				return err
			}
			b, err := remote.CreateNode(c.Context(), n)
			if err != nil {
				return err
			}
			return a.showBootstrap(b, "created")
		},
	}
	f := c.Flags()
	f.StringVar(&n.Hostname, "hostname", "", "hostname of the machine")
	f.StringVar(&n.Site, "site", "", "site of the machine")
	f.StringVar(&n.SKU, "sku", "", "SKU of the machine")
	f.StringVar(&n.Bootstrap, "bootstrap", "cloud-init", "what to print: cloud-init or command")
	f.StringArrayVar(&labels, "label", nil, "a label, `key=value` (may be repeated)")
	f.DurationVar(&ttl, "ttl", 24*time.Hour, "lifetime of the enrolment token")
	f.StringVar(&n.Arch, "arch", "amd64", "amd64 or arm64")
	f.StringArrayVar(&n.PackageURLs, "package-url", nil, "another URL of the agent package (may be repeated)")
	f.StringVar(&n.MAASSystemID, "maas-system-id", "", "bind the token to this MAAS machine")
	placeFlags(c, &n.Place)
	reasonFlag(c, &n.Reason)
	return c
}

// showBootstrap prints the machine's data unchanged, so that the output can be redirected, and
// everything else on stderr.
func (a *app) showBootstrap(b *api.NodeBootstrap, done string) error {
	a.note("node %s (%s) is %s; its enrolment token is valid until %s", b.Node.Hostname, b.Node.ID, done, render.Time(b.ExpiresAt))
	if b.Warning != "" {
		a.note("warning: %s", b.Warning)
	}
	if a.output == "json" || a.output == "yaml" {
		return a.show(b, nil, nil)
	}
	text := b.CloudConfig
	if text == "" {
		text = b.Command
	}
	return a.print(strings.NewReader(strings.TrimRight(text, "\n") + "\n"))
}

func nodeTokenCommand(a *app) *cobra.Command {
	return noun("token", "issue or extend a node's enrolment token", "  hostler node token extend gpu-07",
		nodeTokenIssueCommand(a), nodeTokenExtendCommand(a))
}

func nodeTokenIssueCommand(a *app) *cobra.Command {
	var r api.TokenRequest
	ttl := 24 * time.Hour
	c := &cobra.Command{
		Use: "issue NODE", Short: "issue a new enrolment token, and print what the machine runs", Args: exactly("NODE"),
		Long: `Issue a new enrolment token for an existing node, for example after its disk was
replaced, and print what the machine runs. Earlier tokens no longer work.`,
		Example: "  hostler node token issue gpu-07 > user-data",
		RunE: func(c *cobra.Command, args []string) error {
			r.TTLSeconds = int64(ttl / time.Second)
			remote, err := a.connect()
			if err != nil {
				return err
			}
			b, err := remote.IssueToken(c.Context(), args[0], r)
			if err != nil {
				return err
			}
			return a.showBootstrap(b, "to enrol again")
		},
	}
	c.Flags().DurationVar(&ttl, "ttl", ttl, "lifetime of the token")
	reasonFlag(c, &r.Reason)
	return c
}

func nodeTokenExtendCommand(a *app) *cobra.Command {
	var r api.TokenRequest
	ttl := 24 * time.Hour
	c := &cobra.Command{
		Use: "extend NODE", Short: "extend the lifetime of a token that a machine already has, at most twice", Args: exactly("NODE"),
		Example: "  hostler node token extend gpu-07 --ttl 48h --reason 'rack delivered late'",
		RunE: func(c *cobra.Command, args []string) error {
			r.TTLSeconds = int64(ttl / time.Second)
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.ExtendToken(c.Context(), args[0], r)
			if err != nil {
				return err
			}
			return a.show(t, []string{t.NodeID}, func(p *render.Page) {
				p.Fields("node", t.NodeID, "token valid until", moment(a, t.ExpiresAt), "extended", plural(t.Extensions, "time"))
			})
		},
	}
	c.Flags().DurationVar(&ttl, "ttl", ttl, "new lifetime, from now")
	reasonFlag(c, &r.Reason)
	return c
}
