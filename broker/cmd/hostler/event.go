package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func eventsCommand(a *app) *cobra.Command {
	var f client.EventFilter
	var node string
	c := &cobra.Command{
		Use: "events", Short: "show past events, oldest first; with --follow, show new events", Args: exactly(),
		Long: `Show events: status changes of nodes, runs that started, failed or ended, freezes.
Without --follow the command prints the stored events and ends. With --follow it
prints only new events, unless --after names the start. After a lost connection it
continues after the last event. Ctrl-C ends it normally, with status 0. -o json
prints one CloudEvent per line. --project shows the events of a project's
allocations, as the project sees them. A token of a tenant sees no others.`,
		Example: "  hostler events --follow\n  hostler events --follow --node gpu-07 --type node.status.changed -o json\n  hostler events --follow --after 1200\n" +
			"  hostler events --project acme/lab --follow",
		RunE: func(c *cobra.Command, _ []string) error {
			if f.Project != "" && (node != "" || len(f.Types) > 0) {
				return usage("--node and --type select events of the platform, not those of a project")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if node != "" {
				n, err := remote.Node(c.Context(), node)
				if err != nil {
					return err
				}
				f.Subject = "node/" + n.ID
			}
			if f.After == "" && !f.Follow {
				f.After = "0"
			}
			err = remote.Events(c.Context(), f, a.showEvent, func(err error) {
				if err == nil {
					a.note("connected again")
					return
				}
				a.note("%v: retrying", err)
			})
			if f.Follow && c.Context().Err() != nil {
				return nil // a person who follows ends the command by Ctrl-C
			}
			if err == nil {
				a.showFrozen()
			}
			return err
		},
	}
	c.Flags().BoolVarP(&f.Follow, "follow", "f", false, "wait for new events")
	c.Flags().StringArrayVar(&f.Types, "type", nil, "only events of this `TYPE`, such as node.status.changed (may be repeated)")
	c.Flags().StringVar(&node, "node", "", "only events about this `NODE`")
	c.Flags().StringVar(&f.Project, "project", "", "the events of this `PROJECT` alone: an id, a name, or ORGANISATION/NAME")
	c.Flags().StringVar(&f.After, "after", "", "start after the event with this `ID`; 0: from the oldest stored event")
	return c
}

// showEvent prints one event on arrival.
func (a *app) showEvent(e api.Event) error {
	var out bytes.Buffer
	switch {
	case a.output == "json":
		if err := render.JSONLine(&out, e); err != nil {
			return err
		}
	case a.output == "yaml":
		out.WriteString("---\n")
		if err := render.YAML(&out, e); err != nil {
			return err
		}
	default:
		p := render.NewPage(a.color, 0)
		if a.quiet {
			p.Line(e.ID)
		} else {
			p.Line(fmt.Sprintf("%-6s  %s  %-22s  %-24s  %s", e.ID, render.Time(e.Time), e.Type, e.Subject, eventDetail(e.Data)))
		}
		if _, err := p.WriteTo(&out); err != nil {
			return broker.Errorf(broker.Internal, "output_failed", "cannot write the output: %v", err)
		}
	}
	return a.print(&out)
}

// eventWords are the fields of an event's data that a person reads first.
var eventWords = []string{
	"hostname", "site", "from", "to", "status", "stage", "failure_class", "error_message", "recommended_next_action",
	"reason", "code", "by",
}

func eventDetail(raw json.RawMessage) string {
	var data map[string]any
	if json.Unmarshal(raw, &data) != nil {
		return ""
	}
	var parts []string
	for _, word := range eventWords {
		if v, ok := data[word]; ok && v != "" && v != nil {
			parts = append(parts, fmt.Sprintf("%s=%v", word, v))
		}
	}
	return strings.Join(parts, " ")
}
