package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func trustCommand(a *app) *cobra.Command {
	return noun("trust", "the keys that nodes trust, and their rotation", "  hostler trust show",
		trustShowCommand(a), trustRotateCommand(a), trustAddReleaseKeyCommand(a), trustRetireReleaseKeyCommand(a))
}

func trustShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "show the trust bundle, a rotation, and nodes that have not confirmed", Args: exactly(),
		Example: "  hostler trust show\n  hostler trust show -o json > trust.json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			t, err := remote.Trust(c.Context())
			if err != nil {
				return err
			}
			return a.showTrust(t)
		},
	}
}

func (a *app) showTrust(t *api.Trust) error {
	return a.show(t, []string{strconv.FormatInt(t.Version, 10)}, func(p *render.Page) {
		p.Fields("trust bundle", "version "+strconv.FormatInt(t.Version, 10), "issued", moment(a, t.IssuedAt), "root", "sha256:"+t.CASHA256)
		p.Title("Keys")
		rows := [][]string{}
		for _, k := range t.Keys {
			rows = append(rows, []string{k.Use, k.ID, render.YesNo(k.InForce), render.Time(k.NotBefore), render.Time(k.NotAfter)})
		}
		p.Table([]render.Column{
			render.Keep("USE"), render.ID("ID"), render.Keep("IN FORCE"), render.More("FROM"), render.Main("UNTIL"),
		}, rows)
		if r := t.Rotation; r != nil {
			p.Title("Rotation in progress")
			p.Fields("use", r.Use, "old key", r.OldKeyID, "new key", r.NewKeyID, "since", moment(a, r.StartedAt),
				"open tasks of the old key", strconv.FormatInt(r.OpenTasks, 10))
		}
		if len(t.Gaps) > 0 {
			p.Title("Not yet on every broker (copy the directory keys there)")
			rows := [][]string{}
			for _, g := range t.Gaps {
				rows = append(rows, []string{g.Broker, strings.Join(g.Lacks, ", ")})
			}
			p.Table(render.Kept("BROKER", "LACKS"), rows)
		}
		if len(t.Stragglers) > 0 {
			p.Title("Not yet confirmed by")
			rows := [][]string{}
			for _, s := range t.Stragglers {
				rows = append(rows, []string{
					s.NodeID, s.Hostname, s.Status, strconv.FormatInt(s.TrustVersion, 10),
					render.Ago(s.LastAgentContactAt, a.now()), s.RefusedCode,
				})
			}
			p.Table([]render.Column{
				render.NodeID("NODE"), render.Keep("HOSTNAME"), render.Keep("STATUS"), render.Main("HAS VERSION"),
				render.More("LAST CONTACT"), render.Keep("REFUSES WITH"),
			}, rows)
			for _, s := range t.Stragglers {
				if s.RefusedCode != "" {
					p.Line(s.Hostname + ": " + s.RefusedMessage + ": " + s.NextAction)
				}
			}
		} else {
			p.Blank()
			p.Line("confirmed by every node")
		}
	})
}
