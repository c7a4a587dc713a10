package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/operators"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/store"
)

// local is the actor of changes on the broker's machine, made without a token.
var local = broker.Actor{Name: "hostler-broker", Role: broker.RolePlatformAdmin}

func newToken() *cobra.Command {
	token := &cobra.Command{
		Use: "token", Short: "operators' bearer tokens", Args: onlyCommands,
		Long: "Creates, lists and revokes tokens directly in the store: for the first tokens, and if none is left. A running broker applies a change at once.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	token.AddCommand(newTokenCreate(), newTokenList(), newTokenRevoke())
	return token
}

// withOperators runs f on the tokens of the broker named by s.
func withOperators(c *cobra.Command, s *settings, f func(context.Context, *operators.Directory) error) error {
	if err := s.load(c); err != nil {
		return err
	}
	if err := s.mustHaveStore(); err != nil {
		return err
	}
	db, err := store.Open(c.Context(), store.Options{URL: server.StoreURL(s.DataDir, s.DB)})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return f(c.Context(), operators.New(db, time.Now, rand.Reader))
}

func newTokenCreate() *cobra.Command {
	var s settings
	var n operators.NewToken
	var role string
	c := &cobra.Command{
		Use:     "create",
		Short:   "create a token, and print its secret once",
		Example: "  hostler-broker token create --data-dir DIR --name alice --role operator --site dc1 --ttl 720h > alice.token",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if n.Name == "" || role == "" {
				return usage("%s needs --name and --role (platform_admin, operator or viewer)", c.CommandPath())
			}
			n.Role = broker.Role(role)
			return withOperators(c, &s, func(ctx context.Context, d *operators.Directory) error {
				t, secret, err := d.Create(ctx, local, n)
				if err != nil {
					return err
				}
				_, _ = fmt.Fprintf(c.ErrOrStderr(), "token %s (%s) is valid until %s; its secret is shown only once\n", t.Name, t.Role,
					t.ExpiresAt.Format(time.RFC3339))
				_, err = fmt.Fprintln(c.OutOrStdout(), secret.Reveal())
				return err
			})
		},
	}
	s.where(c)
	c.Flags().StringVar(&n.Name, "name", "", "who uses the token: the actor in the audit log")
	c.Flags().StringVar(&role, "role", "", "platform_admin, operator or viewer")
	c.Flags().StringSliceVar(&n.Sites, "site", nil, "bind the token to a site (may be repeated; default: all sites)")
	c.Flags().DurationVar(&n.TTL, "ttl", operators.DefaultTTL, "lifetime of the token")
	return c
}

func newTokenList() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use: "list", Short: "list tokens, never their secrets", Args: exactArgs(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			return withOperators(c, &s, func(ctx context.Context, d *operators.Directory) error {
				all, err := d.List(ctx)
				if err != nil {
					return err
				}
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
				_, _ = fmt.Fprintln(w, "NAME\tROLE\tSITES\tEXPIRES\tREVOKED")
				for _, t := range all {
					_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Name, t.Role, orDash(strings.Join(t.Sites, ",")), when(t.ExpiresAt),
						when(t.RevokedAt))
				}
				return w.Flush()
			})
		},
	}
	s.where(c)
	return c
}

func newTokenRevoke() *cobra.Command {
	var s settings
	var reason string
	c := &cobra.Command{
		Use: "revoke NAME", Short: "revoke a token at once", Args: exactArgs(1, "the name of a token"),
		RunE: func(c *cobra.Command, args []string) error {
			return withOperators(c, &s, func(ctx context.Context, d *operators.Directory) error {
				t, err := d.Revoke(ctx, local, args[0], reason)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "token %s is revoked\n", t.Name)
				return err
			})
		},
	}
	s.where(c)
	c.Flags().StringVar(&reason, "reason", "", "reason, for the audit log")
	return c
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
