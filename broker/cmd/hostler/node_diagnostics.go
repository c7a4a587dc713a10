package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func nodeDiagnosticsCommand(a *app) *cobra.Command {
	var collect bool
	var out string
	var since, timeout time.Duration
	c := &cobra.Command{
		Use: "diagnostics NODE", Short: "collect or download diagnostics of a node", Args: exactly("NODE"),
		Long: `List the stored diagnostics of a node: archives with the agent's journal, the
kernel's lines about GPUs, the facts, the agent's versions and its ledger. The node
removes secrets and the names of tenants' users before it sends an archive.

--collect has the node collect diagnostics now. --out writes the newest archive, or
the one just collected, to a file: a gzipped tar. A run that fails because of a
broken GPU or at enrolment collects an archive by itself.`,
		Example: "  hostler node diagnostics gpu-07\n  hostler node diagnostics gpu-07 --collect --since 2h --out gpu-07.tar.gz",
		RunE: func(c *cobra.Command, args []string) error {
			if !collect && (c.Flags().Changed("since") || c.Flags().Changed("timeout")) {
				return usage("--since and --timeout go with --collect")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			task := ""
			if collect {
				if task, err = a.collect(c.Context(), remote, args[0], since, timeout); err != nil {
					return err
				}
			}
			l, err := remote.Archives(c.Context(), args[0])
			if err != nil {
				return err
			}
			if out != "" {
				if task == "" && len(l.Items) > 0 {
					task = l.Items[0].TaskID
				}
				if task == "" {
					return broker.Errorf(broker.NotFound, "archive_not_found", "no diagnostics of node %s are stored (use --collect)",
						args[0])
				}
				return a.writeArchive(c.Context(), remote, task, out)
			}
			ids, rows := []string{}, [][]string{}
			for _, k := range l.Items {
				ids = append(ids, k.TaskID)
				rows = append(rows, []string{
					k.TaskID, render.Ago(k.CollectedAt, a.now()), size(k.Bytes), k.EnqueuedBy, k.CorrelationID,
					k.Digest,
				})
			}
			return a.show(l, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("TASK"), render.Main("COLLECTED"), render.Aside("SIZE"), render.More("BY"), render.Keep("FOR"),
					render.Aside("DIGEST"),
				}, rows)
				if len(rows) == 0 {
					a.note("no diagnostics of node %s are stored (use --collect)", args[0])
				}
			})
		},
	}
	c.Flags().BoolVar(&collect, "collect", false, "have the node collect now, and wait for it")
	c.Flags().DurationVar(&since, "since", 24*time.Hour, "how far back the journal is read, up to a week")
	c.Flags().StringVar(&out, "out", "", "write the newest archive to `FILE`")
	timeoutFlag(c, &timeout)
	return c
}

// collect makes a node collect its diagnostics, waits for the end, and returns the task's id.
func (a *app) collect(ctx context.Context, remote *client.Client, node string, since, timeout time.Duration) (task string, err error) {
	if since < time.Minute || since > 7*24*time.Hour {
		return "", usage("--since takes a minute to a week")
	}
	params, err := json.Marshal(taskcatalog.DiagnosticsParams{SinceSeconds: int(since / time.Second)})
	if err != nil {
		return "", err
	}
	t, err := remote.Enqueue(ctx, node, api.TaskCreate{
		Type: "node.diagnostics", Params: params,
		IdempotencyKey: "cli-" + strings.ToLower(rand.Text()),
	})
	if err != nil {
		return "", err
	}
	if t, err = a.follow(ctx, remote, t, timeout); err != nil {
		return "", err
	}
	return t.ID, verdictOf(t)
}

// writeArchive writes a task's archive to a file that only its owner can read, if the archive
// matches its digest.
func (a *app) writeArchive(ctx context.Context, remote *client.Client, task, path string) error {
	k, err := remote.Archive(ctx, task)
	if err != nil {
		return err
	}
	if pki.Digest(k.Archive) != k.Digest {
		return broker.Errorf(broker.Internal, "archive_untrusted",
			"cannot write the archive of task %s: the received data does not match its digest", task)
	}
	if err := os.WriteFile(path, k.Archive, 0o600); err != nil {
		return broker.Errorf(broker.Internal, "output_failed", "cannot write %s: %v", path, err)
	}
	a.note("%s: %s of node %s, task %s", path, k.Digest, k.NodeID, k.TaskID)
	return nil
}

// diagnosticsPage shows the parts of an archive and the missing parts.
func diagnosticsPage(p *render.Page, r taskcatalog.DiagnosticsResult) {
	p.Title("Collected")
	p.Fields("digest", r.Digest, "size", size(int64(r.Bytes)))
	rows := [][]string{}
	for _, part := range r.Parts {
		rows = append(rows, []string{part.Name, size(int64(part.Bytes)), count(int64(part.Redacted)), render.YesNo(part.Cut), part.Missing})
	}
	resultTable(p, "Parts", []render.Column{
		render.Keep("PART"), render.Main("SIZE"), render.Keep("REDACTED"), render.Keep("CUT"), render.Keep("MISSING"),
	}, rows)
}

func taskArchiveCommand(a *app) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "archive TASK --out FILE", Short: "download what a task collected, such as diagnostics", Args: exactly("TASK"),
		Long: `Write the archive that a task collected to a file, as the node sent it: a gzipped
tar whose digest the node has signed with the task's result. The audit log records
who reads it.`,
		Example: "  hostler task archive TASK --out gpu-07.tar.gz",
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usage("task archive needs --out FILE")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			return a.writeArchive(c.Context(), remote, args[0], out)
		},
	}
	c.Flags().StringVar(&out, "out", "", "write to `FILE`")
	return c
}
