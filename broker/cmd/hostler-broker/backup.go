package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/backup"
	"github.com/hostler/hostler/broker/internal/regular"
)

func newBackup() *cobra.Command {
	var s settings
	var recipients, files []string
	var force bool
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "write the database, the keys and the secrets into one encrypted file",
		Long: `Writes a snapshot of the database, the keys beside it and the secrets that are
stored in files into FILE, encrypted to the recipients. The broker may keep running.
The output lists the keys in the backup: whoever can decrypt FILE can act as the
broker. A PostgreSQL database is backed up with pg_dump: see docs/how-to/backup.md.`,
		Example: "  hostler-broker backup --data-dir /var/lib/hostler-broker --recipient age1… /backup/hostler-$(date +%F).age",
		Args:    exactArgs(1, "the name of the backup file"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.load(c); err != nil {
				return err
			}
			if s.DB != "" {
				return broker.Errorf(broker.Refused, "backup_postgres",
					"cannot back up a PostgreSQL database: use pg_dump (docs/how-to/backup.md describes how, and which files of the data directory belong to the backup)")
			}
			if err := s.mustHaveStore(); err != nil {
				return err
			}
			for _, f := range files {
				raw, err := readSmall(f)
				if err != nil {
					return err
				}
				recipients = append(recipients, strings.Split(raw, "\n")...)
			}
			if len(recipients) == 0 {
				return usage("%s needs --recipient age1… or --recipients-file FILE: a backup holds the broker's keys", c.CommandPath())
			}
			m, digest, err := backup.Write(c.Context(), backup.WriteOptions{
				DataDir: s.DataDir, File: args[0], Force: force,
				Recipients: recipients, Version: version, Now: now(),
			})
			if err != nil {
				return err
			}
			return printBackup(c.OutOrStdout(), args[0], m, digest)
		},
	}
	s.where(c)
	c.Flags().StringArrayVar(&recipients, "recipient", nil,
		"recipient of the encryption: age1… or age1pq… (may be repeated, with one kind)")
	c.Flags().StringArrayVar(&files, "recipients-file", nil, "file with recipients, one per line")
	c.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	return c
}

const maxSmallFile = 1 << 20

func readSmall(path string) (string, error) {
	raw, err := regular.Read(path, maxSmallFile)
	if err != nil {
		return "", broker.Errorf(broker.Invalid, "bad_usage", "cannot read %v", err)
	}
	return string(raw), nil
}

func printBackup(w io.Writer, file string, m backup.Manifest, digest string) error {
	_, err := fmt.Fprintf(w, "wrote %s, sha256 %s\n", file, digest)
	printManifest(w, m)
	return err
}

// printManifest lists the content of a backup, above all its keys.
func printManifest(w io.Writer, m backup.Manifest) {
	var database uint64
	secrets := 0
	for _, f := range m.Files {
		switch {
		case f.Path == "hostler.db":
			database = uint64(max(f.Size, 0))
		case strings.HasSuffix(f.Path, ".age"):
			secrets++
		}
	}
	_, _ = fmt.Fprintf(w, "  taken at  %s, by %s\n", m.TakenAt.UTC().Format(time.RFC3339), cmp.Or(m.Version, "an unknown version"))
	_, _ = fmt.Fprintf(w, "  database  %s, schema %d\n", humanize.IBytes(database), m.Schema)
	if m.Secrets {
		_, _ = fmt.Fprintf(w, "  secrets   %d, and the identity they are encrypted to\n", secrets)
	} else {
		_, _ = fmt.Fprintln(w, "  secrets   none: they are not stored in files")
	}
	for _, root := range m.Roots {
		_, _ = fmt.Fprintf(w, "  root CA   %s\n", root)
	}
	for _, k := range m.Keys {
		if k.File != "" {
			_, _ = fmt.Fprintf(w, "  key       %s %s: inside\n", k.Use, k.ID)
		} else {
			_, _ = fmt.Fprintf(w, "  key       %s %s: not inside, it is at %s\n", k.Use, k.ID, k.URI)
		}
	}
}
