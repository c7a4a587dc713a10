package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/server"
)

func newCA() *cobra.Command {
	ca := &cobra.Command{
		Use: "ca", Short: "the broker's keys", Args: onlyCommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var s settings
	var trustKey string
	initialize := &cobra.Command{
		Use:   "init",
		Short: "make the keys of a broker that shares a PostgreSQL with others",
		Long: `Makes the root CA, the issuing CA, and the task, trust and statement keys in
DIR/keys, once. Copy that directory to every replica: serve with --db makes no keys.
With SQLite, serve makes the keys at its first start.`,
		Example: "  hostler-broker ca init --data-dir /var/lib/hostler-broker --trust-key file:/media/offline/trust.key",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.load(c); err != nil {
				return err
			}
			dir, err := server.OpenDataDir(s.DataDir)
			if err != nil {
				return err
			}
			defer func() { _ = dir.Close() }()
			if err := dir.MakeKeys(time.Now(), trustKey); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "made keys in %s\n", filepath.Join(s.DataDir, "keys"))
			return err
		},
	}
	s.where(initialize)
	initialize.Flags().StringVar(&trustKey, "trust-key", "", "URI of a trust key that is stored elsewhere")
	ca.AddCommand(initialize)
	return ca
}
