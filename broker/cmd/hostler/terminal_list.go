package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func terminalListCommand(a *app) *cobra.Command {
	var f client.TerminalFilter
	c := &cobra.Command{
		Use: "list", Short: "list terminal sessions, newest first", Args: exactly(),
		Example: "  hostler terminal list --status live\n  hostler terminal list --node gpu-07 --opened-by alice -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Limit < 0 {
				return usage("--limit takes 0 (all) or a positive number")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.Terminals(c.Context(), f)
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, t := range l.Items {
				ids = append(ids, t.ID)
				rows = append(rows, []string{
					t.ID, t.Hostname, t.Username, t.OpenedBy, t.Status, t.EndCode, exitText(t.ExitStatus),
					render.Ago(t.CreatedAt, a.now()), t.Reason,
				})
			}
			return a.show(l, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("ID"), render.Keep("NODE"), render.Main("USER"), render.More("OPENED BY"), render.Keep("STATUS"),
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
	return &cobra.Command{
		Use: "show ID", Short: "show a terminal session", Args: exactly("ID"),
		Example: "  hostler terminal show ts-7k2m4q6s",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.Terminal(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showTerminal(t)
		},
	}
}

func (a *app) showTerminal(t *api.Terminal) error {
	limit := func(seconds int64) string {
		if seconds == 0 {
			return "none"
		}
		return (time.Duration(seconds) * time.Second).String()
	}
	return a.show(t, []string{t.ID}, func(p *render.Page) {
		p.Fields("session", t.ID, "node", t.Hostname+" ("+t.NodeID+")", "site", t.Site, "user", t.Username, "allocation", t.AllocationID,
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
	var reason string
	c := &cobra.Command{
		Use: "close ID", Short: "end a terminal session, and all processes that it started", Args: exactly("ID"),
		Example: "  hostler terminal close ts-7k2m4q6s --reason 'left open'",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.Terminal(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.confirm(c, "End session %s of %s, as %s on %s?", t.ID, t.OpenedBy, t.Username, t.Hostname); err != nil {
				return err
			}
			if t, err = remote.CloseTerminal(c.Context(), args[0], reason); err != nil {
				return err
			}
			return a.showTerminal(t)
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}
