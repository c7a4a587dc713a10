package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

const nodesUsage = "`SELECTOR|FILE`: all, NODE,NODE or key=value,key=value; or a file with one NODE per line"

func decommissionBatchCommand(a *app) *cobra.Command {
	var b api.DecommissionBatch
	var nodes string
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "batch", Short: "turn many nodes over between two tenants", Args: exactly(),
		Long: `Turn over many nodes of one site. Either all listed nodes start, or none. The site's
profile limits how many move at a time, and stops the batch after a number of
failures in a row at one stage and of one class. If a listed node has a live
allocation, the whole batch is refused and each such node is named, unless
--force-release is given. The command lists the nodes and their tenants, and you
confirm with the number of nodes, unless --yes is given.

--nodes takes a selector or a file. An argument that ends in .txt or .csv, begins
with / or ., or is - names a file with one NODE per line. A line that begins with #
is ignored.`,
		Example: "  hostler decommission batch --nodes gpu-07,gpu-08 --mode soft_reset --reason 'the project ended' --wait\n  hostler decommission batch --nodes rack-c07.txt --mode reimage --erase secure --reason 'new image'\n  hostler node list --status quarantined -q | hostler decommission batch --nodes - --mode reimage --reason R --yes",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := needsFlags(c, "nodes", "mode"); err != nil {
				return err
			}
			if err := needReason(b.Reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if b.Nodes, err = a.nodesOf(c.Context(), remote, nodes); err != nil {
				return err
			}
			if !saidYes(c) {
				plan, err := a.confirmBatch(c.Context(), remote, b)
				if err != nil {
					return err
				}
				b.ForceAllocations = shown(b.ForceRelease, plan.Nodes...)
			}
			started, err := remote.StartDecommissionBatch(c.Context(), b)
			if err != nil {
				return err
			}
			rows := [][]string{}
			for _, r := range started.Decommissions {
				rows = append(rows, []string{r.DecommissionID, r.Hostname})
			}
			return decommissions.startedBatch(a, c.Context(), remote, started, started.BatchID, rows, wait, timeout)
		},
	}
	c.Flags().StringVar(&nodes, "nodes", "", nodesUsage)
	decommissionFlags(c, &b.DecommissionStart)
	yesFlag(c)
	runWaitFlags(c, &wait, &timeout)
	return c
}

// nodesOf reads the named nodes. A selector never means a file, even if a file of that name exists.
func (a *app) nodesOf(ctx context.Context, remote *client.Client, text string) (refs []string, err error) {
	if !isFile(text) {
		found, err := selectNodes(ctx, remote, text)
		for _, n := range found {
			refs = append(refs, n.ID)
		}
		return refs, err
	}
	raw, err := a.readUpTo(maxMachinesFile, text)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(plainText(raw))) {
		if line = strings.Trim(line, ", \t\r\n"); line != "" && !strings.HasPrefix(line, "#") {
			refs = append(refs, line)
		}
	}
	if len(refs) == 0 {
		return nil, broker.Errorf(broker.Invalid, "turnover_invalid", "cannot use %s: it names no node", text)
	}
	return refs, nil
}

func isFile(text string) bool {
	return text == "-" || slices.ContainsFunc([]string{"/", "."}, func(p string) bool { return strings.HasPrefix(text, p) }) ||
		slices.ContainsFunc([]string{".txt", ".csv"}, func(s string) bool { return strings.HasSuffix(text, s) })
}

// confirmBatch shows the tenants of the nodes, and has the person type the number of nodes, because
// a selector may match more than expected. A batch that would be refused is not asked about.
func (a *app) confirmBatch(ctx context.Context, remote *client.Client, b api.DecommissionBatch) (*api.DecommissionBatchPlan, error) {
	plan, err := remote.PlanDecommissionBatch(ctx, b)
	if err == nil {
		err = refusedBy(plan.Refused)
	}
	if err != nil {
		return nil, err
	}
	live := 0
	for _, n := range plan.Nodes {
		live += len(n.Live)
	}
	page := a.newQuestion()
	batchPage(a, page, plan)
	_, _ = page.WriteTo(a.err)
	ends := ""
	if live > 0 {
		ends = " Ended for the tenant as well: " + plural(live, "allocation") + "."
	}
	question := plan.Mode + " of " + plural(len(plan.Nodes), "node") + "?" + ends
	if !a.ask {
		return nil, broker.Errorf(broker.Invalid, "confirmation_required", "cannot ask without a terminal: %s (use --yes)", question)
	}
	_, _ = fmt.Fprintf(a.err, "%s Type the number of nodes to continue: ", question)
	line, err := a.answer()
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(line) != strconv.Itoa(len(plan.Nodes)) {
		return nil, broker.Errorf(broker.Refused, "not_confirmed", "nothing was changed: that is not the number of nodes")
	}
	return plan, nil
}

// batchPage shows the nodes of a batch and their tenants.
func batchPage(a *app, p *render.Page, plan *api.DecommissionBatchPlan) {
	stop := "never"
	if plan.StopAfter > 0 {
		stop = "after " + plural(plan.StopAfter, "failure") + " in a row"
	}
	p.Fields("site", plan.Site, "mode", plan.Mode, "nodes", strconv.Itoa(len(plan.Nodes)), "at a time", strconv.Itoa(plan.Parallel),
		"stops", stop,
		"takes about", render.Span(time.Duration(plan.ExpectedSeconds)*time.Second)+" each")
	p.Blank()
	rows := [][]string{}
	for _, n := range plan.Nodes {
		var now []string
		for _, l := range n.Live {
			now = append(now, named(l))
		}
		last := ""
		if n.Last != nil {
			last = named(*n.Last) + ", until " + render.Ago(n.Last.EndedAt, a.now()) + certifiedSince(n)
		}
		rows = append(rows, []string{n.Node.ID, n.Node.Hostname, n.Node.Serial, n.Node.Site, n.Node.Status, strings.Join(now, "; "), last})
	}
	if plan.Refused != nil {
		p.Line("refused: " + plan.Refused.Code + ": " + plan.Refused.Detail)
	}
	p.Table([]render.Column{
		render.NodeID("ID"), render.Keep("HOSTNAME"), render.More("SERIAL"), render.Main("SITE"),
		render.Keep("STATUS"), render.Keep("ON IT NOW"), render.Keep("ON IT LAST"),
	}, rows)
}
