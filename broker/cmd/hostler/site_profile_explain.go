package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func siteProfileExplainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "explain [KNOB …]", Short: "list the knobs of a profile, with default, bounds and unit",
		Long:              "List the knobs of a profile by topic, with default, allowed values and unit. With names,\nexplain only these knobs. The command asks no broker: it lists the knobs of this release.",
		Example:           "  hostler site profile explain\n  hostler site profile explain deploy_timeout_seconds disk_grade",
		ValidArgsFunction: completeKnobs("", cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.explainKnobs(args)
			}
			var names []string
			for _, k := range broker.Knobs() {
				names = append(names, k.Name)
			}
			return a.show(broker.Knobs(), names, listKnobs)
		},
	}
}

// listKnobs has a table for each group.
func listKnobs(p *render.Page) {
	for _, group := range knobGroups() {
		var rows [][]string
		for _, k := range group {
			rows = append(rows, []string{k.Name, render.Cut(k.Default, 24), k.Bounds, k.Unit})
		}
		p.Title(group[0].Group)
		p.Table([]render.Column{render.Keep("KNOB"), render.Main("DEFAULT"), render.Main("ALLOWED"), render.More("UNIT")}, rows)
	}
}

// explainKnobs shows everything that is declared of some knobs.
func (a *app) explainKnobs(names []string) error {
	var chosen []broker.Knob
	for _, name := range names {
		k, is := broker.KnobNamed(name)
		if !is {
			return usage("a profile has no knob %q (hostler site profile explain lists them)", name)
		}
		chosen = append(chosen, k)
	}
	return a.show(chosen, names, func(p *render.Page) {
		for _, k := range chosen {
			p.Title(k.Name)
			p.Line(k.Help)
			p.Fields("group", k.Group, "default", cmp.Or(k.Default, "-"), "allowed", k.Bounds, "unit", k.Unit)
		}
	})
}

// completeKnobs offers the names of the knobs, each with what follows a name and with its help.
func completeKnobs(follows string, then cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, k := range broker.Knobs() {
			names = append(names, cobra.CompletionWithDesc(k.Name+follows, k.Help))
		}
		return names, then
	}
}
