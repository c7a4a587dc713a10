package main

import (
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func registryCredentialCommand(a *app) *cobra.Command {
	return noun("registry-credential", "accounts at OCI registries from which agents are pulled", "  hostler registry-credential list",
		registrySetCommand(a), registryListCommand(a), registryRemoveCommand(a))
}

func registrySetCommand(a *app) *cobra.Command {
	var put api.RegistryCredentialPut
	var password string
	c := &cobra.Command{
		Use:   "set REGISTRY --username U --password-file FILE|- --reason R",
		Short: "store an account at a registry, after the registry accepted it", Args: exactly("REGISTRY"),
		Long: `Store an account at an OCI registry, HOST[:PORT], among the broker's secrets. For
each agent update from that registry the broker requests a token that may pull that
repository and is valid for minutes; no node is given the account. The account needs
only the right to pull, and should have no other.

The account is tried before it is stored. The registry must have a token service: it
answers a pull with WWW-Authenticate: Bearer. The address of that service is stored
with the account, and the account is sent to no other service. Setting the account
again replaces it, from the next update on. FILE must be readable by its owner
alone. --plain-http is for trials with a registry without TLS: anybody on the
network path can read the password.`,
		Example: "  hostler registry-credential set registry.example --username hostler-pull --password-file pull.pw --reason 'agents of our CI'",
		RunE: func(c *cobra.Command, args []string) error {
			if put.Username == "" || password == "" {
				return usage("no account is given (use --username and --password-file FILE, or - for stdin)")
			}
			if err := needReason(put.Reason); err != nil {
				return err
			}
			if err := a.readSecretLine(password, &put.Password); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			kept, err := remote.SetRegistryCredential(c.Context(), args[0], put)
			if err != nil {
				return err
			}
			return a.showRegistries(kept, []api.RegistryCredential{*kept})
		},
	}
	f := c.Flags()
	f.StringVar(&put.Username, "username", "", "name of the account")
	f.StringVar(&password, "password-file", "", "`FILE` with the account's password, or - for stdin")
	f.BoolVar(&put.PlainHTTP, "plain-http", false, "use the registry without TLS")
	reasonFlag(c, &put.Reason)
	return c
}

func registryListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the registries at which the broker has an account", Args: exactly(),
		Example: "  hostler registry-credential list",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.RegistryCredentials(c.Context())
			if err != nil {
				return err
			}
			return a.showRegistries(l, l.Items)
		},
	}
}

func registryRemoveCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "remove REGISTRY --reason R", Short: "remove an account and its secret", Args: exactly("REGISTRY"),
		Long: `Remove an account and its secret. From then on nodes pull from the registry without
a credential; an update in progress may fail.`,
		Example: "  hostler registry-credential remove registry.example --reason 'moved to another' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "remove the credential of registry %s? Its secret is deleted", args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.RemoveRegistryCredential(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.show(r, []string{r.Registry}, func(p *render.Page) { p.Line("removed: " + r.Username + " at " + r.Registry) })
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func (a *app) showRegistries(v any, items []api.RegistryCredential) error {
	names, rows := []string{}, [][]string{}
	for _, r := range items {
		transport := "TLS"
		if r.PlainHTTP {
			transport = "none (plain HTTP)"
		}
		names = append(names, r.Registry)
		rows = append(rows, []string{r.Registry, r.Username, transport, r.SetBy, render.Ago(r.SetAt, a.now()), r.Reason})
	}
	return a.show(v, names, func(p *render.Page) {
		p.Table([]render.Column{
			render.Keep("REGISTRY"), render.Main("USERNAME"), render.More("TRANSPORT"), render.Aside("SET BY"),
			render.More("SET"), render.Keep("REASON"),
		}, rows)
		if len(rows) == 0 {
			a.note("no registry credentials: nodes pull only from repositories that need no account")
		}
	})
}
