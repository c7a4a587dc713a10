package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func usageCommand(a *app) *cobra.Command {
	var f client.UsageFilter
	var from, to string
	var asCSV bool
	c := &cobra.Command{
		Use: "usage", Short: "show what projects have used within a period", Args: exactly(),
		Long: `Show what projects have used within a period: the sums by project and SKU, and the
allocations. An allocation counts from the time at which it became active to the
time at which its release began. Hours are those within the period, which ends now
at the latest. A tenant's token shows the project that it is for; a token for a
whole organisation needs --project.

--csv prints the allocations for programs that bill, with the seconds within the
period. A cell that a spreadsheet would take for a formula begins with an apostrophe.`,
		Example: "  hostler usage --project acme/lab\n  hostler usage --from 2026-01-01 --to 2026-02-01 --csv > january.csv",
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if asCSV && c.Flags().Changed("output") {
				return usage("use one of --csv and --output")
			}
			if f.From, err = a.timeFlag("from", from); err != nil {
				return err
			}
			if f.To, err = a.timeFlag("to", to); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if f.Project, err = projectOfUsage(c.Context(), remote, f.Project); err != nil {
				return err
			}
			l, err := remote.Usage(c.Context(), f)
			if err != nil {
				return err
			}
			if asCSV {
				return a.usageCSV(l)
			}
			return a.showUsage(l)
		},
	}
	c.Flags().StringVar(&f.Project, "project", "", "only usage of this `PROJECT`: an id, a name, or ORGANISATION/NAME")
	c.Flags().StringVar(&f.Site, "site", "", "only usage at this site")
	c.Flags().StringVar(&from, "from", "", "start of the period, a `TIME` as of hostler audit list; default: the first of its month, UTC")
	c.Flags().StringVar(&to, "to", "", "end of the period, exclusive, a `TIME`; default: now")
	c.Flags().BoolVar(&asCSV, "csv", false, "print the allocations as CSV")
	return c
}

// projectOfUsage is the named project, or the one that the token is for. It is empty for a token of
// the platform, which sees all projects.
func projectOfUsage(ctx context.Context, remote *client.Client, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	who, err := remote.Whoami(ctx)
	if err != nil {
		return "", err
	}
	if who.OrganisationID != "" && who.ProjectID == "" {
		return "", usage("no project is named (use --project PROJECT; hostler project list lists them)")
	}
	return who.ProjectID, nil
}

func (a *app) showUsage(l *api.UsageList) error {
	var totals, rows [][]string
	for _, t := range l.Totals {
		totals = append(totals, []string{
			t.ProjectID, t.SKU, hours(t.NodeHours), hours(t.GPUHours), strconv.Itoa(t.Allocations), strconv.Itoa(t.InUse),
		})
	}
	names := []string{}
	for _, u := range l.Items {
		end := "in use"
		if u.To != nil {
			end = render.Time(*u.To)
		}
		names = append(names, u.AllocationID)
		rows = append(rows, []string{
			u.AllocationID, u.ProjectID, u.SKU, strconv.Itoa(u.Nodes), strconv.Itoa(u.GPUs), render.Time(u.From), end,
			hours(u.Seconds / 3600),
		})
	}
	return a.show(l, names, func(p *render.Page) {
		p.Fields("from", render.Time(l.From), "to", render.Time(l.To))
		if len(rows) == 0 {
			a.note("no usage within the period (name another with --from and --to)")
			return
		}
		p.Title("Totals")
		p.Table([]render.Column{
			render.ID("PROJECT"), render.Keep("SKU"), render.Keep("NODE HOURS"), render.Keep("GPU HOURS"), render.Main("ALLOCATIONS"),
			render.Main("IN USE"),
		}, totals)
		p.Title("Allocations")
		p.Table([]render.Column{
			render.ID("ALLOCATION"), render.Aside("PROJECT"), render.Keep("SKU"), render.Main("NODES"), render.Main("GPUS"),
			render.Main("FROM"), render.Main("TO"), render.Keep("HOURS"),
		}, rows)
	})
}

func hours(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// usageCSV prints the rows for who bills.
func (a *app) usageCSV(l *api.UsageList) error {
	a.showFrozen()
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	rows := [][]string{{"allocation_id", "project_id", "sku", "site", "nodes", "gpus", "from", "to", "seconds"}}
	for _, u := range l.Items {
		end := ""
		if u.To != nil {
			end = u.To.UTC().Format(time.RFC3339Nano)
		}
		rows = append(rows, []string{
			spreadsheetText(u.AllocationID), spreadsheetText(u.ProjectID), spreadsheetText(u.SKU), spreadsheetText(u.Site),
			strconv.Itoa(u.Nodes), strconv.Itoa(u.GPUs), u.From.UTC().Format(time.RFC3339Nano), end,
			strconv.FormatFloat(u.Seconds, 'f', -1, 64),
		})
	}
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return a.print(&out)
}

// spreadsheetText makes untrusted text fit for a cell that a spreadsheet shows as text, not as a formula.
func spreadsheetText(s string) string {
	if s = taskcatalog.Clean(s, render.MaxCell); s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}
