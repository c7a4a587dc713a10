package main

import (
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func sourceCredentialCommand(a *app) *cobra.Command {
	return noun("source-credential", "accounts at buckets and repositories from which operations bring files to nodes",
		"  hostler source-credential list",
		sourceSetCommand(a), sourceListCommand(a), sourceRemoveCommand(a))
}

func sourceSetCommand(a *app) *cobra.Command {
	var put api.SourceCredentialPut
	var secret string
	c := &cobra.Command{
		Use:   "set NAME --source KIND:PREFIX --secret-file FILE|- --reason R",
		Short: "store an account at a source of artifacts", Args: exactly("NAME"),
		Long: `Store an account at a source of artifacts among the broker's secrets. PREFIX is a
bucket or a repository, with or without a path; the account serves what lies below it.
If two accounts serve a file, the one with the longer prefix is used.

  s3:BUCKET[/PATH]           an access key: --endpoint, --region, --key-id
  gcs:BUCKET[/PATH]          an HMAC key of the interoperability API: --key-id
  huggingface:OWNER[/NAME]   a token

For each file that a step of an operation pulls, the broker signs a URL of a bucket
that is valid for minutes; no node is given the key. A repository knows only tokens:
the node gets the token, keeps it in memory, and overwrites it. The account needs only
the right to read, and should have no other. The account is not tried here: the first
operation that uses it tries it. FILE must be readable by its owner alone.`,
		Example: "  hostler source-credential set models --source s3:models --endpoint https://s3.example --region eu-1 --key-id AKEXAMPLE --secret-file key --reason 'our models'",
		RunE: func(c *cobra.Command, args []string) error {
			if put.Source == "" || secret == "" {
				return usage("no source or no secret is given (use --source KIND:PREFIX and --secret-file FILE, or - for stdin)")
			}
			if err := needReason(put.Reason); err != nil {
				return err
			}
			if err := a.readSecretLine(secret, &put.Secret); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			kept, err := remote.SetSourceCredential(c.Context(), args[0], put)
			if err != nil {
				return err
			}
			return a.showSources(kept, []api.SourceCredential{*kept})
		},
	}
	f := c.Flags()
	f.StringVar(&put.Source, "source", "", "`KIND:PREFIX` that the account serves")
	f.StringVar(&put.Endpoint, "endpoint", "", "`URL` of the service, https://HOST (default: that of gcs and huggingface)")
	f.StringVar(&put.Region, "region", "", "region of the bucket")
	f.StringVar(&put.KeyID, "key-id", "", "id of the access key")
	f.StringVar(&secret, "secret-file", "", "`FILE` with the access key's secret or the token, or - for stdin")
	reasonFlag(c, &put.Reason)
	return c
}

func sourceListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the accounts at sources of artifacts", Args: exactly(),
		Example: "  hostler source-credential list",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.SourceCredentials(c.Context())
			if err != nil {
				return err
			}
			return a.showSources(l, l.Items)
		},
	}
}

func sourceRemoveCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "remove SOURCE-CREDENTIAL --reason R", Short: "remove an account and its secret", Args: exactly("SOURCE-CREDENTIAL"),
		Long: `Remove an account and its secret. An operation that needs the account fails when it
asks for a credential. A URL that was signed before is valid until it ends.`,
		Example: "  hostler source-credential remove models --reason 'moved to another bucket' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "remove source credential %s? Its secret is deleted", args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.RemoveSourceCredential(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.show(r, []string{r.Name}, func(p *render.Page) { p.Line("removed: " + r.Name + ", for " + r.Source) })
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func (a *app) showSources(v any, items []api.SourceCredential) error {
	names, rows := []string{}, [][]string{}
	for _, s := range items {
		names = append(names, s.Name)
		rows = append(rows, []string{s.Name, s.Source, s.Endpoint, s.KeyID, s.SetBy, render.Ago(s.SetAt, a.now()), s.Reason})
	}
	return a.show(v, names, func(p *render.Page) {
		p.Table([]render.Column{
			render.Keep("NAME"), render.Main("SOURCE"), render.More("ENDPOINT"), render.Aside("KEY"), render.Aside("SET BY"),
			render.More("SET"), render.Keep("REASON"),
		}, rows)
		if len(rows) == 0 {
			a.note("no source credentials: operations bring files only from sources that need no account")
		}
	})
}
