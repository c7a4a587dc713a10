package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

// typeNames are the types built into this program, for completion.
func typeNames() []string {
	names := []string{}
	for _, t := range taskcatalog.All() {
		names = append(names, t.Name)
	}
	return names
}

func taskTypesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "types", Short: "list the task types", Args: exactly(),
		Example: "  hostler task types",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			list, err := remote.TaskTypes(c.Context())
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, t := range list.Items {
				id := typeID(t)
				ids = append(ids, id)
				rows = append(rows, []string{
					id, t.Class, t.Lane, render.Span(duration(t.DeadlineSeconds)),
					strings.Join(t.Capabilities, " "), t.Summary,
				})
			}
			return a.show(list, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.Keep("TYPE"), render.Keep("CLASS"), render.Aside("LANE"), render.More("DEADLINE"),
					render.More("NEEDS"), render.Keep("SUMMARY"),
				}, rows)
			})
		},
	}
}

func typeID(t api.TaskType) string { return fmt.Sprintf("%s@%d", t.Name, t.Version) }

func duration(seconds int64) time.Duration { return time.Duration(seconds) * time.Second }

func taskDescribeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "describe TYPE", Short: "describe a task type: purpose, params and result", Args: exactly("TYPE"),
		Long: `Describe a task type: what it does, its params and its result. For types that deal
with a tenant's traces, also what is cleaned, what is only reported, and what is not
checked.`,
		Example: "  hostler task describe node.validate_clean",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.TaskType(c.Context(), args[0])
			if err != nil {
				return err
			}
			params, err := parseSchema(t.ParamsSchema)
			if err != nil {
				return err
			}
			result, err := parseSchema(t.ResultSchema)
			if err != nil {
				return err
			}
			return a.show(t, []string{typeID(*t)}, func(p *render.Page) { describePage(p, t, params, result) })
		},
	}
}

func describePage(p *render.Page, t *api.TaskType, params, result *schema) {
	p.Line(typeID(*t) + ": " + t.Summary)
	p.Blank()
	p.Fields("class", t.Class, "lane", t.Lane, "deadline", render.Span(duration(t.DeadlineSeconds))+" from its start",
		"latest start", render.Span(duration(t.StartSeconds))+" after it was asked for",
		"needs", strings.Join(t.Capabilities, ", "), "filled in by the broker", strings.Join(t.BrokerFills, ", "),
		"enqueued by the broker", t.ByBroker)
	if rows := params.table(t.BrokerFills); len(rows) > 0 {
		p.Title("Params")
		p.Table([]render.Column{render.Keep("NAME"), render.Keep("TYPE"), render.Keep("REQUIRED"), render.Main("LIMITS")}, rows)
	} else {
		p.Title("It takes no params")
	}
	if rows := result.table(nil); len(rows) > 0 {
		p.Title("Result")
		for i := range rows {
			rows[i] = rows[i][:2]
		}
		p.Table(render.Kept("NAME", "TYPE"), rows)
	}
	p.Title("Example")
	p.Line("hostler task enqueue NODE " + t.Name + exampleFlags(t.Example))
	for _, part := range []struct {
		treatment taskcatalog.Treatment
		title     string
	}{
		{taskcatalog.Cleaned, "What is cleaned"},
		{taskcatalog.FoundOnly, "What is only reported, never cleaned"},
		{taskcatalog.NotLookedAt, "What is not checked"},
	} {
		heads, rows := render.Kept("CHECK", "COVERS"), [][]string{}
		if part.treatment == taskcatalog.Cleaned {
			heads = render.Kept("CHECK", "CLEANED BY", "COVERS")
		}
		for _, c := range t.Checks {
			switch {
			case c.Treatment != part.treatment:
			case len(heads) == 3:
				rows = append(rows, []string{c.Name, c.CleanedBy, c.Covers})
			default:
				rows = append(rows, []string{c.Name, c.Covers})
			}
		}
		if len(rows) > 0 {
			p.Title(part.title)
			p.Table(heads, rows)
		}
	}
}
