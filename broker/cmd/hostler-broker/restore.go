package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/backup"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/store"
)

// restoring holds the arguments of hostler-broker restore.
type restoring struct {
	settings
	identity, root, accept, key, reason string
	hold, list, release, force          bool
}

func newRestore() *cobra.Command {
	var r restoring
	c := &cobra.Command{
		Use:   "restore FILE | --hold | --list | --accept NODE --key KEY | --release",
		Short: "restore a backup into a data directory, and bring the broker back into service",
		Long: `Restores the backup FILE into an empty data directory. The restored broker starts on
hold, because the backup lacks what was denied, used or done since. During the hold
no run advances, only probes are delivered to nodes, and a node is let in only when
MAAS or you vouch for it. --list shows what was found, --accept vouches for a node,
--release ends the hold. --hold is for a database that was restored by other means,
such as pg_restore. docs/how-to/backup.md describes the whole procedure.`,
		Example: `  hostler-broker restore --data-dir DIR --identity backup.key --ca-sha256 FINGERPRINT FILE
  hostler-broker restore --data-dir DIR --list
  hostler-broker restore --data-dir DIR --release --reason "compared, ticket 4711"`,
		Args: func(c *cobra.Command, args []string) error {
			if r.ways(args) != 1 {
				return usage("%s takes exactly one of FILE, --hold, --list, --accept NODE and --release (see %s --help)", c.CommandPath(),
					c.CommandPath())
			}
			if (r.hold || r.release || r.accept != "") && r.reason == "" {
				return usage("%s needs --reason here", c.CommandPath())
			}
			if (r.accept != "") != (r.key != "") {
				return usage("%s needs --accept NODE and --key KEY together, as --list shows them", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := r.load(c); err != nil {
				return err
			}
			switch {
			case r.list:
				return r.onStore(c.Context(), func(ctx context.Context,
					db *store.DB,
				) error {
					return listRestored(ctx, db, c.OutOrStdout())
				})
			case r.accept != "":
				return r.onStore(c.Context(), func(ctx context.Context, db *store.DB) error { return r.accepts(ctx, db, c.OutOrStdout()) })
			case r.release:
				return r.onStore(c.Context(), func(ctx context.Context, db *store.DB) error { return r.releases(ctx, db, c.OutOrStdout()) })
			case r.hold:
				return r.holds(c.Context(), c.OutOrStdout())
			}
			return r.restores(c.Context(), args[0], c.OutOrStdout())
		},
	}
	r.where(c)
	c.Flags().StringVar(&r.identity, "identity", "", "file with the age identity that FILE is encrypted to")
	c.Flags().StringVar(&r.root, "ca-sha256", "",
		"fingerprint of the root CA that the nodes pin, so that another broker's backup is refused")
	c.Flags().BoolVar(&r.hold, "hold", false, "put a database that was restored by other means on hold; no broker may run")
	c.Flags().BoolVar(&r.list, "list", false, "list the nodes that are not let in, and the differences found")
	c.Flags().StringVar(&r.accept, "accept", "",
		"vouch for the node `NODE`: let in the identity that asked last to renew for it, with the key of --key")
	c.Flags().StringVar(&r.key, "key", "", "`KEY` to accept, as --list shows it")
	c.Flags().BoolVar(&r.release, "release", false, "end the hold")
	c.Flags().BoolVar(&r.force, "force", false, "with --release: also where not all is compared yet")
	c.Flags().StringVar(&r.reason, "reason", "", "reason, for the audit log")
	return c
}

// ways counts the requested actions.
func (r *restoring) ways(args []string) int {
	n := len(args)
	for _, asked := range []bool{r.hold, r.list, r.release, r.accept != ""} {
		if asked {
			n++
		}
	}
	return n
}

// onStore runs f on the database, possibly beside a running broker.
func (r *restoring) onStore(ctx context.Context, f func(context.Context, *store.DB) error) error {
	if err := errors.Join(backup.Unfinished(r.DataDir), r.mustHaveStore()); err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Options{URL: server.StoreURL(r.DataDir, r.DB)})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return f(ctx, db)
}

func (r *restoring) restores(ctx context.Context, file string, w io.Writer) error {
	switch {
	case r.DB != "":
		return broker.Errorf(broker.Refused, "backup_postgres",
			"cannot restore into a PostgreSQL database: use pg_restore, then hostler-broker restore --hold (docs/how-to/backup.md describes how)")
	case r.identity == "":
		return usage("hostler-broker restore needs --identity FILE")
	}
	dir, err := server.LockDataDir(r.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	m, v, err := backup.Restore(ctx, backup.RestoreOptions{
		File: file, DataDir: dir.Path(), Identity: r.identity, RootSHA256: r.root,
		Now: now(), Actor: local,
	})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(w, "restored %s into %s\n", file, dir.Path())
	printManifest(w, m)
	return printHold(w, v, r.DataDir)
}

func (r *restoring) holds(ctx context.Context, w io.Writer) error {
	hold := func(ctx context.Context, db *store.DB) error {
		v, err := db.MarkRestored(ctx, local, time.Time{}, r.reason)
		if err != nil {
			return err
		}
		return printHold(w, v, r.DataDir)
	}
	switch {
	case strings.HasPrefix(r.DB, "sqlite:"): // a SQLite database has its lock in the data directory
		return usage("hostler-broker restore --hold takes a SQLite database with --data-dir, not with --db")
	case r.DB != "":
		return r.onStore(ctx, hold)
	}
	if err := r.mustHaveStore(); err != nil {
		return err
	}
	dir, err := server.OpenDataDir(r.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return r.onStore(ctx, hold)
}

func printHold(w io.Writer, v store.Voided, dataDir string) error {
	_, err := fmt.Fprintf(w, `the broker is on hold: %d nodes must renew
  ended: %d enrol tokens, %d operators' tokens, %d open tasks (outcome unknown); stopped: %d runs
next: hostler-broker token create --data-dir %s --name … --role platform_admin
      start the broker; hostler-broker restore --list; hostler-broker restore --release --reason …
`, v.Nodes, v.EnrolTokens, v.OperatorTokens, v.Tasks, v.Runs, dataDir)
	return err
}

func (r *restoring) accepts(ctx context.Context, db *store.DB, w io.Writer) error {
	n, err := db.AcceptRestored(ctx, local, r.accept, r.key, r.reason)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "node %s is let in with key %s, of epoch %d, which asked from %s\n", n.NodeID, n.AcceptKey, n.AskedEpoch,
		n.AskedFrom)
	return err
}

func (r *restoring) releases(ctx context.Context, db *store.DB, w io.Writer) error {
	missing, err := db.NotCompared(ctx)
	if err != nil {
		return err
	}
	if len(missing) > 0 && !r.force {
		const most = 20
		text := strings.Join(missing[:min(most, len(missing))], ", ")
		if n := len(missing) - most; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		return broker.Errorf(broker.Refused, "not_compared",
			"cannot release: %s: not compared since the restore (check that a broker runs and that MAAS answers, and see --list; --force releases regardless)", text)
	}
	if _, err := db.ReleaseRestore(ctx, local, r.reason); err != nil {
		return err
	}
	nodes, err := db.RestoredNodes(ctx)
	if err != nil {
		return err
	}
	out := 0
	for _, n := range nodes {
		if !n.In() {
			out++
		}
	}
	_, err = fmt.Fprintf(w,
		"released; %d nodes were not let in and stay out until they are accepted or enrol again (hostler-broker restore --list)\n", out)
	return err
}

func listRestored(ctx context.Context, db *store.DB, w io.Writer) error {
	last, err := db.LastRestore(ctx)
	if err != nil {
		return err
	}
	if last.RestoredAt.IsZero() {
		_, err := fmt.Fprintln(w, "this database was not restored from a backup")
		return err
	}
	nodes, err := db.RestoredNodes(ctx)
	if err != nil {
		return err
	}
	found, err := db.Differences(ctx)
	if err != nil {
		return err
	}
	state := "held"
	if !last.Held() {
		state = "released by " + last.ReleasedBy + " at " + when(last.ReleasedAt) + ": " + last.Reason
	}
	in := 0
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "restored at %s from %s; %s\n\nNODE\tSTATE\tEPOCH\tASKED\tFROM\tKEY\tMACHINE\n", when(last.RestoredAt),
		last.Source, state)
	for _, n := range nodes {
		if n.In() {
			in++
			if !n.Contested() {
				continue
			}
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", n.NodeID, n.State(), n.Epoch, when(n.AskedAt), orDash(n.AskedFrom),
			orDash(n.Asked()), orDash(n.MachineIs))
	}
	_, _ = fmt.Fprintf(table, "%d are let in\n\nSUBJECT\tDIFFERENCE\tWHAT\n", in)
	for _, d := range found {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", d.Subject, d.Code, d.Text)
	}
	return table.Flush()
}
