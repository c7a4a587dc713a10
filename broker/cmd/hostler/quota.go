package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func quotaCommand(a *app) *cobra.Command {
	return noun("quota", "what projects may have", "  hostler quota list acme/lab", quotaSetCommand(a), quotaListCommand(a))
}

func quotaSetCommand(a *app) *cobra.Command {
	var q api.QuotaPut
	c := &cobra.Command{
		Use: "set PROJECT SKU", Short: "set what a project may have of a SKU at the same time", Args: exactly("PROJECT", "SKU"),
		Long: `Set the most nodes and GPUs of a SKU that a project may have at the same time. Both
numbers hold. A project without a quota of a SKU may have nothing of it; so may a
project whose quota is 0. A lower quota takes nothing away that the project has.`,
		Example: "  hostler quota set acme/lab h100.8gpu --nodes 2 --gpus 16",
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("nodes") || !c.Flags().Changed("gpus") {
				return usage("no quota is given (use --nodes N and --gpus N)")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			kept, err := remote.SetQuota(c.Context(), args[0], args[1], q)
			if err != nil {
				return err
			}
			return a.showQuotas(kept, []api.Quota{*kept})
		},
	}
	c.Flags().IntVar(&q.Nodes, "nodes", 0, "most nodes at the same time")
	c.Flags().IntVar(&q.GPUs, "gpus", 0, "most GPUs at the same time")
	reasonFlag(c, &q.Reason)
	return c
}

func quotaListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list PROJECT", Short: "list a project's quotas", Args: exactly("PROJECT"), Example: "  hostler quota list acme/lab",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			all, err := remote.Quotas(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showQuotas(api.QuotaList{Items: all}, all)
		},
	}
}

func (a *app) showQuotas(v any, all []api.Quota) error {
	names, rows := []string{}, [][]string{}
	for _, q := range all {
		names = append(names, q.SKU)
		rows = append(rows, []string{q.SKU, strconv.Itoa(q.Nodes), strconv.Itoa(q.GPUs), render.Ago(q.UpdatedAt, a.now())})
	}
	return a.show(v, names, func(p *render.Page) {
		p.Table([]render.Column{render.Keep("SKU"), render.Keep("NODES"), render.Keep("GPUS"), render.Aside("CHANGED")}, rows)
		if len(rows) == 0 {
			a.note("no quotas: the project may have nothing (set one: hostler quota set)")
		}
	})
}
