package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func baselineCommand(a *app) *cobra.Command {
	return noun("baseline", "the recorded clean state that a node is compared with", "  hostler node baseline diff gpu-07",
		baselineShowCommand(a), baselineDiffCommand(a), baselineAcceptCommand(a), baselineRetakeCommand(a))
}

func baselineShowCommand(a *app) *cobra.Command {
	return onNodes(a, &cobra.Command{
		Use: "show NODE", Short: "show the baseline in force",
		Example: "  hostler node baseline show gpu-07\n  hostler node baseline show gpu-07 -o json > baseline.json",
	}, func(c *cobra.Command, remote *client.Client, nodes []api.Node) error {
		list, rows, digests := []api.Baseline{}, [][]string{}, []string{}
		err := a.each(nodes, func(n api.Node) error {
			b, err := remote.Baseline(c.Context(), n.ID)
			if err != nil {
				return err
			}
			list, digests = append(list, *b), append(digests, b.Digest)
			rows = append(rows, baselineRow(a, n, b))
			return nil
		})
		if len(list) == 0 {
			return err
		}
		return errors.Join(showAll(a, list, digests, func(p *render.Page) {
			if len(list) > 1 {
				p.Table([]render.Column{render.Keep("NODE"), render.More("DIGEST"), render.Main("TAKEN"), render.Aside("THINGS")}, rows)
				return
			}
			baselinePage(a, p, nodes[0], list[0])
		}), err)
	})
}

// baselineCounts says how many things of each kind a baseline holds.
func baselineCounts(b taskcatalog.Baseline) (rows [][]string, total int) {
	raw, err := taskcatalog.Encode(b)
	var kinds map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &kinds) != nil {
		return nil, 0
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		var list []json.RawMessage
		var parts map[string]json.RawMessage
		switch {
		case json.Unmarshal(kinds[kind], &list) == nil:
			rows, total = append(rows, []string{kind, strconv.Itoa(len(list))}), total+len(list)
		case json.Unmarshal(kinds[kind], &parts) == nil:
			for _, part := range slices.Sorted(maps.Keys(parts)) {
				n := sizeOf(parts[part])
				rows, total = append(rows, []string{kind + " " + part, strconv.Itoa(n)}), total+n
			}
		}
	}
	return rows, total
}

// sizeOf counts the elements of a JSON list or the members of an object.
func sizeOf(raw json.RawMessage) int {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		return len(list)
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(raw, &object)
	return len(object)
}

func baselineRow(a *app, n api.Node, b *api.Baseline) []string {
	_, total := baselineCounts(b.Baseline)
	return []string{n.Hostname, render.Short(b.Digest), render.Ago(b.Baseline.TakenAt, a.now()), strconv.Itoa(total)}
}

func baselinePage(a *app, p *render.Page, n api.Node, b api.Baseline) {
	accepted := "by the broker, when the node came"
	if b.AcceptedBy != "" {
		accepted = "by " + b.AcceptedBy + ", " + moment(a, b.AcceptedAt) + ": " + taskcatalog.Clean(b.Reason, 200)
	}
	p.Fields("node", n.Hostname+" ("+n.ID+")", "digest", b.Digest, "taken", moment(a, b.Baseline.TakenAt), "accepted", accepted)
	p.Title("Holds (hostler node baseline show " + n.Hostname + " -o json lists them)")
	rows, _ := baselineCounts(b.Baseline)
	p.Table(render.Kept("KIND", "COUNT"), rows)
	gpus := [][]string{}
	for _, g := range b.Baseline.GPUs {
		gpus = append(gpus, []string{g.UUID, g.Serial, g.PCIAddress, g.Name, bytesText(g.MemoryBytes), settingsText(g.Settings)})
	}
	resultTable(p, "GPUs, and what they are set to", []render.Column{
		render.Aside("UUID"), render.Main("SERIAL"), render.More("ADDRESS"), render.Keep("NAME"),
		render.Main("MEMORY"), render.Keep("SETTINGS"),
	}, gpus)
}

// settingsText describes the settings of a GPU, as far as they are known.
func settingsText(s taskcatalog.GPUSettings) string {
	raw, err := taskcatalog.Encode(s)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, name+" "+brief(fields[name]))
	}
	return strings.Join(all, ", ")
}

func baselineDiffCommand(a *app) *cobra.Command {
	return onNodes(a, &cobra.Command{
		Use: "diff NODE", Short: "compare the baseline in force with the newest one",
		Example: "  hostler node baseline retake gpu-07 --wait && hostler node baseline diff gpu-07",
	}, func(c *cobra.Command, remote *client.Client, nodes []api.Node) error {
		list, names := []api.BaselineDiff{}, []string{}
		pages := []func(*render.Page){}
		err := a.each(nodes, func(n api.Node) error {
			d, err := remote.BaselineDiff(c.Context(), n.ID)
			if err != nil {
				return err
			}
			list, names = append(list, *d), append(names, d.Candidate)
			pages = append(pages, func(p *render.Page) { diffPage(a, p, n, d) })
			return nil
		})
		if len(list) == 0 {
			return err
		}
		return errors.Join(showAll(a, list, names, func(p *render.Page) {
			for _, page := range pages {
				page(p)
			}
		}), err)
	})
}

func diffPage(a *app, p *render.Page, n api.Node, d *api.BaselineDiff) {
	p.Blank()
	if d.Candidate == "" {
		p.Fields("node", n.Hostname+" ("+n.ID+")", "in force", d.Digest, "taken last", "none (hostler node baseline retake "+n.Hostname+")")
		return
	}
	p.Fields("node", n.Hostname+" ("+n.ID+")", "in force", d.Digest, "taken last", d.Candidate, "at", moment(a, d.TakenAt),
		"differences", strconv.Itoa(len(d.Lines)))
	rows := [][]string{}
	for _, l := range d.Lines {
		change := ""
		if l.Before != "" || l.After != "" {
			change = fmt.Sprintf("%s → %s", l.Before, l.After)
		}
		rows = append(rows, []string{l.Op, l.Kind, l.What, change})
	}
	p.Table(render.Kept("OP", "KIND", "WHAT", "CHANGE"), rows)
}
