package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func terminalListCommand(a *app) *cobra.Command {
	var f client.TerminalFilter
	var project, allocation string
	c := &cobra.Command{
		Use: "list", Short: "list terminal sessions, newest first", Args: exactly(),
		Long: `List terminal sessions, newest first. With the token of a project, or --project, list
the sessions that members opened for the project.`,
		Example: "  hostler terminal list --status live\n  hostler terminal list --node gpu-07 --opened-by alice -o json\n" +
			"  hostler terminal list --project acme/lab --allocation alc-019c4e6a2f1k7m2q4s6t8w",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Limit < 0 {
				return usage("--limit takes 0 (all) or a positive number")
			}
			routes, err := a.terminals(c.Context(), project)
			if err != nil {
				return err
			}
			l, all, err := routes.list(c.Context(), f, allocation)
			if err != nil {
				return err
			}
			at := render.Keep("NODE")
			if routes.project != "" {
				at = render.Keep("ALLOCATION")
			}
			ids, rows := []string{}, [][]string{}
			for _, t := range all {
				place := t.Hostname
				if routes.project != "" {
					place = t.AllocationID
				}
				ids = append(ids, t.ID)
				rows = append(rows, []string{
					t.ID, place, t.Username, t.OpenedBy, t.Status, t.EndCode, exitText(t.ExitStatus),
					render.Ago(t.CreatedAt, a.now()), t.Reason,
				})
			}
			return a.show(l, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("ID"), at, render.Main("USER"), render.More("OPENED BY"), render.Keep("STATUS"),
					render.More("END"), render.Aside("EXIT"), render.More("OPENED"), render.Keep("REASON"),
				}, rows)
				if len(rows) == 0 {
					a.note("no terminal sessions")
				}
			})
		},
	}
	c.Flags().StringVar(&f.Node, "node", "", "only sessions of this `NODE`")
	c.Flags().StringVar(&f.Status, "status", "", "only sessions of this status, or of several separated by commas; live: not ended")
	c.Flags().StringVar(&f.OpenedBy, "opened-by", "", "only sessions of this operator")
	c.Flags().StringVar(&allocation, "allocation", "", "only sessions of this allocation of the project, by its `ID`")
	terminalProjectFlag(c, &project)
	c.Flags().IntVar(&f.Limit, "limit", 100, "maximum number of sessions; 0: all")
	return c
}

// exitText is a program's exit status, if known.
func exitText(status *int) string {
	if status == nil {
		return ""
	}
	return strconv.Itoa(*status)
}

func terminalShowCommand(a *app) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "show ID", Short: "show a terminal session", Args: exactly("ID"),
		Example: "  hostler terminal show ts-7k2m4q6s",
		RunE: func(c *cobra.Command, args []string) error {
			routes, err := a.terminals(c.Context(), project)
			if err != nil {
				return err
			}
			t, err := routes.show(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showTerminal(t)
		},
	}
	terminalProjectFlag(c, &project)
	return c
}

func (a *app) showTerminal(t *seenTerminal) error {
	limit := func(seconds int64) string {
		if seconds == 0 {
			return "none"
		}
		return (time.Duration(seconds) * time.Second).String()
	}
	node := ""
	if t.NodeID != "" {
		node = t.Hostname + " (" + t.NodeID + ")"
	}
	return a.show(t.answer, []string{t.ID}, func(p *render.Page) {
		p.Fields("session", t.ID, "node", node, "site", t.Site, "user", t.Username, "allocation", t.AllocationID, "project", t.ProjectID,
			"opened by", t.OpenedBy, "reason", t.Reason, "opened", render.Time(t.CreatedAt), "status", t.Status,
			"since", render.Time(t.StatusAt),
			"node's side over", t.Transport, "its end asked by", t.EndRequestedBy, "ended", moment(a, t.ClosedAt), "why", t.EndCode,
			"exit status", exitText(t.ExitStatus))
		p.Title("Policy")
		p.Fields("lasts at most", limit(t.MaxSeconds), "without a key", limit(t.IdleSeconds),
			"without its operator", limit(t.DetachSeconds),
			"what is typed is recorded", render.YesNo(t.RecordInput), "may set the title", render.YesNo(t.Filter.Title),
			"may set the clipboard", render.YesNo(t.Filter.Clipboard))
	})
}

func terminalCloseCommand(a *app) *cobra.Command {
	var reason, project string
	c := &cobra.Command{
		Use: "close ID", Short: "end a terminal session, and all processes that it started", Args: exactly("ID"),
		Example: "  hostler terminal close ts-7k2m4q6s --reason 'left open'",
		RunE: func(c *cobra.Command, args []string) error {
			routes, err := a.terminals(c.Context(), project)
			if err != nil {
				return err
			}
			t, err := routes.show(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.confirm(c, "End session %s of %s, as %s %s?", t.ID, t.OpenedBy, t.Username, t.place()); err != nil {
				return err
			}
			if t, err = routes.close(c.Context(), args[0], reason); err != nil {
				return err
			}
			return a.showTerminal(t)
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	terminalProjectFlag(c, &project)
	return c
}
