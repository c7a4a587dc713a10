package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func baselineAcceptCommand(a *app) *cobra.Command {
	var reason, digest string
	c := &cobra.Command{
		Use: "accept NODE --reason R", Short: "put the newest baseline in force",
		Long: `Put the newest baseline in force: its differences from the earlier baseline are then
no findings. The command shows the differences first; --digest accepts only the
baseline with that digest.`,
		Example: "  hostler node baseline accept gpu-07 --reason 'driver 580 rolled out'",
	}
	reasonFlag(c, &reason)
	yesFlag(c)
	c.Flags().StringVar(&digest, "digest", "", "accept only the baseline with this digest, as shown by hostler node baseline diff")
	return onNodes(a, c, func(c *cobra.Command, remote *client.Client, nodes []api.Node) error {
		if err := needReason(reason); err != nil {
			return err
		}
		list, names, rows := []api.Baseline{}, []string{}, [][]string{}
		err := a.each(nodes, func(n api.Node) error {
			want := digest
			if want == "" {
				d, err := remote.BaselineDiff(c.Context(), n.ID)
				if err != nil {
					return err
				}
				if d.Candidate == "" {
					return broker.Errorf(broker.Refused, "no_candidate",
						"cannot accept a baseline of node %s: no newer baseline was taken (run hostler node baseline retake %s --wait)",
						n.Hostname, n.Hostname)
				}
				if !saidYes(c) && a.ask {
					p := a.newQuestion()
					diffPage(a, p, n, d)
					_, _ = p.WriteTo(a.err)
				}
				if err := a.confirm(c, "accept %s as the baseline of node %s, with %s?", render.Short(d.Candidate), n.Hostname,
					plural(len(d.Lines), "difference")); err != nil {
					return err
				}
				want = d.Candidate
			}
			b, err := remote.AcceptBaseline(c.Context(), n.ID, api.BaselineAccept{Digest: want, Reason: reason})
			if err != nil {
				return err
			}
			list, names = append(list, *b), append(names, b.Digest)
			rows = append(rows, []string{n.Hostname, b.Digest})
			return nil
		})
		if len(list) == 0 {
			return err
		}
		return errors.Join(showAll(a, list, names, func(p *render.Page) { p.Table(render.Kept("NODE", "BASELINE"), rows) }), err)
	})
}

func baselineRetakeCommand(a *app) *cobra.Command {
	var reason string
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "retake NODE", Short: "record the node's present state as a candidate for a new baseline",
		Example: "  hostler node baseline retake gpu-07 --wait\n  hostler node baseline retake --nodes site=dc1",
	}
	reasonFlag(c, &reason)
	waitFlags(c, &wait, &timeout)
	return onNodes(a, c, func(c *cobra.Command, remote *client.Client, nodes []api.Node) error {
		tasks, ids := []api.Task{}, []string{}
		err := a.each(nodes, func(n api.Node) error {
			t, err := remote.RetakeBaseline(c.Context(), n.ID, reason)
			if err != nil {
				return err
			}
			tasks, ids = append(tasks, *t), append(ids, t.ID)
			return nil
		})
		if wait {
			err = errors.Join(err, a.followAll(c.Context(), remote, tasks, timeout))
		}
		if len(tasks) == 0 {
			return err
		}
		return errors.Join(showAll(a, tasks, ids, func(p *render.Page) {
			rows := [][]string{}
			for _, t := range tasks {
				rows = append(rows, taskRow(a, t))
			}
			p.Table(taskHeads, rows)
		}), err)
	})
}
