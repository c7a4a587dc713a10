package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func allocationExplainCommand(a *app) *cobra.Command {
	var sku, site, image, spread, pack, project string
	var nodes int
	c := &cobra.Command{
		Use: "explain --sku SKU --nodes N", Short: "say which nodes fit a request, and why the others do not", Args: exactly(),
		Long: `Say whether a request for nodes of a SKU would find them now, how many nodes fit, and
how many do not, by reason, with the next action for up to ten nodes of each. A node
may have several reasons. As many free nodes as are kept for the reservations of other
projects are reserved; with --project the nodes kept for that project fit. Quotas are not looked at (hostler quota list PROJECT).`,
		Example: "  hostler allocation explain --sku h100.8gpu --nodes 4\n  hostler allocation explain --sku h100.8gpu --nodes 4 --site dc1 -o json\n" +
			"  hostler allocation explain --sku h100.8gpu --nodes 4 --project acme/lab\n  hostler allocation explain --sku h100.8gpu --nodes 4 --image custom/rocm\n" +
			"  hostler allocation explain --sku h100.8gpu --nodes 4 --spread rack",
		RunE: func(c *cobra.Command, _ []string) error {
			if sku == "" || nodes < 1 {
				return usage("it is not said what to explain (use --sku SKU and --nodes N)")
			}
			if err := (broker.Arrangement{Spread: spread, Pack: pack}).Check(); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			e, err := remote.ExplainAllocation(c.Context(), sku, nodes, site, image, spread, pack, project)
			if err != nil {
				return err
			}
			return a.show(e, nil, func(p *render.Page) { explanationPage(p, e, cmp.Or(spread, pack)) })
		},
	}
	c.Flags().StringVar(&sku, "sku", "", "the SKU")
	c.Flags().IntVar(&nodes, "nodes", 1, "number of whole nodes")
	c.Flags().StringVar(&site, "site", "", "only at this site")
	c.Flags().StringVar(&image, "image", "", "one of the SKU's images; default: whatever the nodes have")
	arrangementFlags(c, &spread, &pack)
	c.Flags().StringVar(&project, "project", "", "the `PROJECT` that asks; default: one without a reservation")
	return c
}

func explanationPage(p *render.Page, e *api.AllocationExplanation, level string) {
	answer := fmt.Sprintf("yes, at %s", e.Site)
	if !e.WouldFit {
		answer = "no, " + e.Code + ": " + e.Message
	}
	p.Fields("request", fmt.Sprintf("%s of %s", plural(e.Nodes, "node"), e.SKU), "image", e.Image, "finds its nodes", answer,
		"fit", strconv.Itoa(e.Fit), "reimaged first", count(int64(e.Reimages)), "do not fit", strconv.Itoa(e.DoNotFit))
	if level != "" && e.WouldFit {
		p.Fields("stand in", plural(e.Places, level))
	}
	if len(e.Sites) > 0 {
		p.Title("Sites")
		rows := [][]string{}
		for _, s := range e.Sites {
			rows = append(rows, []string{cmp.Or(s.Site, "-"), strconv.Itoa(s.Fit), strconv.Itoa(s.DoNotFit)})
		}
		p.Table(render.Kept("SITE", "FIT", "DO NOT FIT"), rows)
	}
	for _, r := range e.Reasons {
		p.Title(fmt.Sprintf("%s: %s", r.Code, plural(r.Nodes, "node")))
		rows := [][]string{}
		for _, n := range r.Examples {
			rows = append(rows, []string{n.Hostname, cmp.Or(n.Site, "-"), n.NextAction})
		}
		p.Table(render.Kept("NODE", "SITE", "NEXT"), rows)
	}
}
