package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	profiles "github.com/hostler/hostler/resolver-profiles"
)

func resolverCommand(a *app) *cobra.Command {
	return noun("resolver", "resolver profiles: how nodes run steps on their hardware",
		"  hostler resolver push resolver-profiles --nodes all",
		resolverValidateCommand(a), resolverPushCommand(a), resolverListCommand(a), resolverShowCommand(a),
		resolverRollbackCommand(a), resolverExplainCommand(a))
}

// readProfiles reads and checks a set; every problem goes to stderr.
func (a *app) readProfiles(names []string) (*profiles.Set, error) {
	files, err := profiles.Read(names...)
	if err != nil {
		return nil, broker.Errorf(broker.Invalid, "resolver_profiles_unreadable", "%v", err)
	}
	set, problems := profiles.Parse(files...)
	for _, p := range problems {
		_, _ = fmt.Fprintln(a.err, render.Cell(p.String()))
	}
	if len(problems) > 0 {
		return nil, broker.Errorf(broker.Invalid, "resolver_profiles_invalid", "cannot use these resolver profiles: %s (see above)",
			plural(len(problems), "problem"))
	}
	return set, nil
}

func resolverValidateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "validate DIR|FILE …", Short: "check resolver profiles without a broker, with file and line", Args: exactly("DIR|FILE …"),
		Long: `Check resolver profiles as brokers and nodes do. Conditions that depend on a
machine, such as whether a program exists, are checked by hostler-agent resolver
check --here.`,
		Example: "  hostler resolver validate resolver-profiles",
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := a.readProfiles(args)
			if err != nil {
				return err
			}
			out := struct {
				Digest          string `json:"digest"`
				Rules           int    `json:"rules"`
				CommandProfiles int    `json:"command_profiles"`
			}{set.Digest(), len(set.HardwareProfiles), len(set.CommandProfiles)}
			return a.show(out, []string{out.Digest}, func(p *render.Page) {
				p.Line(fmt.Sprintf("good: %s, %s, %s", plural(out.Rules, "rule"), plural(out.CommandProfiles, "command profile"),
					out.Digest))
			})
		},
	}
}

func resolverPushCommand(a *app) *cobra.Command {
	var selector, version, reason string
	c := &cobra.Command{
		Use: "push DIR|FILE … --nodes SELECTOR", Short: "deliver resolver profiles to nodes, in waves", Args: exactly("DIR|FILE …"),
		Long: `Store a set of resolver profiles at the broker, and assign it to nodes.

The set goes to one node first, then to a tenth of the nodes at a time, and stops at
the first failure (hostler resolver list shows it; push the set again to continue).
Nodes that match the selector later get the set too. A node that enrols becomes
active only with its set. If several assignments match a node, the newest counts.`,
		Example: "  hostler resolver push resolver-profiles --nodes gpu.vendor=nvidia --version 2026-11-21 --reason 'new driver'",
		RunE: func(c *cobra.Command, args []string) error {
			if selector == "" {
				return usage("no nodes are given (use --nodes all, NODE,NODE or key=value,key=value)")
			}
			if _, err := broker.ParseSelector(selector); err != nil {
				return err
			}
			set, err := a.readProfiles(args)
			if err != nil {
				return err
			}
			raw, err := set.Encode()
			if err != nil {
				return err
			}
			if version == "" {
				version = a.now().UTC().Format("2006-01-02") + "-" + strings.TrimPrefix(set.Digest(), "sha256:")[:8]
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			kept, err := remote.PushResolverSet(c.Context(), api.ResolverPush{Version: version, Profiles: raw})
			if err != nil {
				return err
			}
			want, err := remote.WantResolverSet(c.Context(), api.ResolverWantPut{Selector: selector, Version: kept.Version, Reason: reason})
			if err != nil {
				return err
			}
			return a.show(want, []string{want.Version}, func(p *render.Page) {
				p.Line(fmt.Sprintf("%s goes to %s (%s); %d have it already (hostler resolver list follows it)", want.Version,
					plural(want.Nodes, "node"), want.Selector, want.Confirmed))
			})
		},
	}
	c.Flags().StringVar(&selector, "nodes", "", "which nodes: all, NODE,NODE or key=value,key=value (`SELECTOR`)")
	c.Flags().StringVar(&version, "version", "", "`NAME` of the set (default: the date and the beginning of its digest)")
	reasonFlag(c, &reason)
	return c
}

func resolverListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the sets, the nodes that get them, and the progress", Args: exactly(),
		Example: "  hostler resolver list",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			sets, err := remote.ResolverSets(c.Context())
			if err != nil {
				return err
			}
			wants, err := remote.ResolverWants(c.Context())
			if err != nil {
				return err
			}
			out := struct {
				*api.ResolverSetList
				Wants []api.ResolverWant `json:"wants"`
			}{sets, wants.Items}
			versions := []string{}
			for _, s := range sets.Items {
				versions = append(versions, s.Version)
			}
			return a.show(out, versions, func(p *render.Page) {
				rows := [][]string{}
				for _, s := range out.Items {
					rows = append(rows, []string{s.Version, s.Digest, s.PushedBy, render.Time(s.PushedAt)})
				}
				p.Table([]render.Column{
					render.Keep("VERSION"), render.More("DIGEST"), render.Aside("PUSHED BY"), render.More("PUSHED"),
				}, rows)
				if len(out.Wants) > 0 {
					p.Title("Assignments, the newest first")
					p.Table([]render.Column{
						render.Keep("NODES"), render.Keep("VERSION"), render.Keep("CONFIRMED"), render.Aside("ASSIGNED BY"),
						render.More("ASSIGNED"), render.Keep("STOPPED"),
					}, wantRows(a, out.Wants))
				}
				if len(rows) == 0 {
					a.note("no resolver profiles (store some: hostler resolver push)")
				}
			})
		},
	}
}

func wantRows(a *app, wants []api.ResolverWant) [][]string {
	rows := [][]string{}
	for _, w := range wants {
		rows = append(rows, []string{
			w.Selector, w.Version, fmt.Sprintf("%d of %d", w.Confirmed, w.Nodes), w.WantedBy,
			render.Ago(w.WantedAt, a.now()), w.StopReason,
		})
	}
	return rows
}

func resolverShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show NODE", Short: "show the wanted, present and previous resolver profiles of a node", Args: exactly("NODE"),
		Example: "  hostler resolver show gpu-07",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.NodeResolver(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showNodeResolver(r)
		},
	}
}

func (a *app) showNodeResolver(r *api.NodeResolver) error {
	return a.show(r, []string{r.NodeID}, func(p *render.Page) {
		inForce := r.InForce
		if inForce == "" {
			inForce = "the set compiled into the agent"
		}
		p.Fields("node", r.NodeID, "hostname", r.Hostname, "assigned", r.Wanted, "in force", inForce, "before", r.Before,
			"confirmed", render.YesNo(r.Confirmed))
		if r.Want != nil {
			p.Title("Assignment")
			p.Table([]render.Column{
				render.Keep("NODES"), render.Keep("VERSION"), render.Keep("CONFIRMED"), render.Aside("ASSIGNED BY"),
				render.More("ASSIGNED"), render.Keep("STOPPED"),
			}, wantRows(a, []api.ResolverWant{*r.Want}))
		}
	})
}

func resolverRollbackCommand(a *app) *cobra.Command {
	var in api.ResolverRollback
	c := &cobra.Command{
		Use: "rollback NODE", Short: "return a node to its previous resolver profiles", Args: exactly("NODE"),
		Example: "  hostler resolver rollback gpu-07 --reason 'nvidia-smi hangs'\n  hostler resolver rollback gpu-07 --to 2026-11-20",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.RollBackResolver(c.Context(), args[0], in)
			if err != nil {
				return err
			}
			return a.showNodeResolver(r)
		},
	}
	c.Flags().StringVar(&in.To, "to", "", "`VERSION` to return to (default: the previous one)")
	reasonFlag(c, &in.Reason)
	return c
}

func resolverExplainCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "explain NODE STEP", Short: "show which rule applies to a step on a node, and why", Args: exactly("NODE", "STEP"),
		Long: `Show how a step resolves on a node: every rule of the set in force on the node, what
each condition found among the node's facts, and the rule that applies.

Step kinds: ` + strings.Join(profiles.Steps(), ", ") + ".",
		Example: "  hostler resolver explain gpu-07 gpu.scrub.overwrite",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			e, err := remote.ExplainResolver(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return a.show(e, []string{e.Rule}, func(p *render.Page) { explained(p, e) })
		},
	}
	return c
}

func explained(p *render.Page, e *api.ResolverExplanation) {
	p.Fields("node", e.Hostname+" ("+e.NodeID+")", "step", e.Step, "profiles", strings.TrimSpace(e.Version+" "+e.Digest),
		"rule", e.Rule, "resolves to", e.Profile, "runs", strings.Join(e.Argv, " "), "code", string(e.Code))
	p.Title("Rules, from the top")
	rows := [][]string{}
	for _, r := range e.Rules {
		verdict := "does not match"
		switch {
		case r.Won:
			verdict = "wins"
		case r.Matched:
			verdict = "matches, too late"
		}
		why := []string{}
		for _, c := range r.Conditions {
			have := c.Have
			if have == "" {
				have = "not known"
			}
			if c.Holds {
				why = append(why, c.Key+" is "+have)
			} else {
				why = append(why, c.Key+" is "+have+", not "+strings.Join(c.Want, " or "))
			}
		}
		if len(r.Conditions) == 0 {
			why = []string{"the fallback"}
		}
		rows = append(rows, []string{r.Name, r.At, verdict, strings.Join(why, "; ")})
	}
	p.Table([]render.Column{render.Keep("RULE"), render.More("AT"), render.Keep("VERDICT"), render.Keep("BECAUSE")}, rows)
}
