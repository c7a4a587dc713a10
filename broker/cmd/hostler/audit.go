package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func auditCommand(a *app) *cobra.Command {
	return noun("audit", "read, verify and export the audit log", "  hostler audit list --action task.enqueue",
		auditListCommand(a), auditVerifyCommand(a), auditExportCommand(a))
}

// auditFlags adds the filters shared by list and export.
func auditFlags(c *cobra.Command, f *client.AuditFilter, from, to *string) {
	c.Flags().StringVar(&f.Node, "node", "", "only rows about this `NODE`")
	c.Flags().StringVar(&f.Source, "source", "", "only rows of requests from this `ADDRESS`")
	c.Flags().StringVar(&f.Site, "site", "", "only rows of requests about this `SITE`, its nodes, runs, tasks and allocations")
	c.Flags().StringVar(from, "from", "", "from this `TIME` on: 2006-01-02, 2006-01-02T15:04:05Z, or an age such as 24h")
	c.Flags().StringVar(to, "to", "", "up to this `TIME`")
}

// timeFlag reads a moment: a date, a time, or how long ago.
func (a *app) timeFlag(name, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if s == "now" {
		return a.now(), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return a.now().Add(-d), nil
	}
	return time.Time{}, usage("cannot read --%s %q as a time (2006-01-02, 2006-01-02T15:04:05Z, 24h or now)", name, s)
}

func (a *app) span(f *client.AuditFilter, from, to string) (err error) {
	if f.From, err = a.timeFlag("from", from); err != nil {
		return err
	}
	if f.To, err = a.timeFlag("to", to); err != nil {
		return err
	}
	if !f.From.IsZero() && !f.To.IsZero() && f.To.Before(f.From) {
		return usage("--to is before --from")
	}
	return nil
}

func auditListCommand(a *app) *cobra.Command {
	var f client.AuditFilter
	var from, to string
	c := &cobra.Command{
		Use: "list", Short: "list rows of the audit log, newest first", Args: exactly(),
		Example: "  hostler audit list --node gpu-07 --from 24h\n  hostler audit list --source 192.0.2.7 --site dc1\n  hostler audit list --actor alice --limit 0 -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Limit < 0 {
				return usage("--limit takes 0 (all) or a positive number")
			}
			if err := a.span(&f, from, to); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			list, err := remote.Audit(c.Context(), f)
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, e := range list.Items {
				ids = append(ids, strconv.FormatInt(e.ID, 10))
				rows = append(rows, []string{
					strconv.FormatInt(e.ID, 10), render.Time(e.At), e.Actor, e.Action, e.Subject, e.Site, e.Source, e.Code,
					e.Reason,
				})
			}
			return a.show(list, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.More("ROW"), render.Keep("AT"), render.Keep("ACTOR"), render.Keep("ACTION"), render.Main("SUBJECT"),
					render.Aside("SITE"), render.Main("SOURCE"), render.Keep("CODE"), render.Keep("REASON"),
				}, rows)
			})
		},
	}
	auditFlags(c, &f, &from, &to)
	c.Flags().StringVar(&f.Actor, "actor", "", "only rows of this actor")
	c.Flags().StringVar(&f.Action, "action", "", "only rows of this action")
	c.Flags().IntVar(&f.Limit, "limit", 100, "maximum number of rows; 0: all")
	return c
}

func auditVerifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "verify all seals of the audit log", Args: exactly(),
		Long: `Verify all seals of the audit log. The result names the first broken or missing
seal, and the number of rows that are not yet sealed. The exit status is 1 if a seal
is broken or missing.`,
		Example: "  hostler audit verify",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			v, err := remote.VerifyAudit(c.Context())
			if err != nil {
				return err
			}
			verdict := "ok"
			if !v.OK {
				verdict = "broken"
			}
			err = a.show(v, []string{verdict}, func(p *render.Page) {
				p.Fields("seals", verdict, "rows walked", strconv.FormatInt(v.Rows, 10),
					"not yet sealed", strconv.FormatInt(v.Unsealed, 10),
					"first bad row", count(v.BrokenAt), "problem", v.Problem, "signed up to row", count(v.HeadID), "head", v.Head,
					"signed with", v.KeyID)
			})
			if err == nil && !v.OK {
				err = broker.Errorf(broker.Internal, "audit_broken",
					"the audit log is not intact from row %d on: %s (leave the database unchanged, and compare it with an export)",
					v.BrokenAt, v.Problem)
			}
			return err
		},
	}
}

func auditExportCommand(a *app) *cobra.Command {
	var f client.AuditFilter
	var from, to string
	c := &cobra.Command{
		Use: "export --from T --to T", Short: "export rows of the audit log, one JSON object per line", Args: exactly(),
		Example: "  hostler audit export --from 2026-01-01 --to 2026-02-01 > audit.ndjson",
		RunE: func(c *cobra.Command, _ []string) error {
			if from == "" || to == "" {
				return usage("cannot export without a period of time (use --from and --to)")
			}
			if err := a.span(&f, from, to); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			return remote.ExportAudit(c.Context(), f, a.out)
		},
	}
	auditFlags(c, &f, &from, &to)
	return c
}
