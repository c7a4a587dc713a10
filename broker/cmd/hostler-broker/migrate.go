package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/store"
)

func newMigrate() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use:   "migrate",
		Short: "bring the database's schema up to date",
		Long:  "Brings the database's schema up to date, as serve does at its start. Run it to migrate before the replicas are replaced.",
		Args:  exactArgs(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if err := s.load(c); err != nil {
				return err
			}
			if s.DB == "" {
				if err := s.mustHaveStore(); err != nil {
					return err
				}
				dir, err := server.OpenDataDir(s.DataDir)
				if err != nil {
					return err
				}
				defer func() { _ = dir.Close() }()
			}
			db, err := store.Open(c.Context(), store.Options{URL: server.StoreURL(s.DataDir, s.DB)})
			if err != nil {
				return err
			}
			if err := db.Close(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "the schema is up to date")
			return err
		},
	}
	s.where(c)
	return c
}

// mustHaveStore refuses a data directory in which no broker was ever started, so that a mistyped
// path does not become an empty database.
func (s *settings) mustHaveStore() error {
	if _, err := os.Stat(filepath.Join(s.DataDir, "hostler.db")); s.DB == "" && err != nil {
		return broker.Errorf(broker.NotFound, "store_not_found",
			"there is no broker's database in %s (start one: hostler-broker serve --data-dir %s)", s.DataDir, s.DataDir)
	}
	return nil
}
