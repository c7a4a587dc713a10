package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/pki"
)

func trustCommand(a *app) *cobra.Command {
	return noun("trust", "the keys that nodes trust, and their rotation", "  hostler trust show",
		trustShowCommand(a), trustRotateCommand(a), trustAddReleaseKeyCommand(a), trustRetireReleaseKeyCommand(a))
}

func trustShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show", Short: "show the trust bundle, a rotation, and the nodes that lag behind", Args: exactly(),
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
			render.Keep("USE"), render.Keep("ID"), render.Keep("IN FORCE"), render.More("FROM"), render.Main("UNTIL"),
		}, rows)
		if r := t.Rotation; r != nil {
			p.Title("Rotation on its way")
			p.Fields("use", r.Use, "old key", r.OldKeyID, "new key", r.NewKeyID, "since", moment(a, r.StartedAt), "open tasks of the old key", strconv.FormatInt(r.OpenTasks, 10))
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
				rows = append(rows, []string{s.NodeID, s.Hostname, s.Status, strconv.FormatInt(s.TrustVersion, 10), render.Ago(s.LastAgentContactAt, a.now()), s.RefusedCode})
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

func trustRotateCommand(a *app) *cobra.Command {
	var use, reason string
	var finish bool
	var behind []string
	c := &cobra.Command{
		Use:   "rotate --use USE --reason R",
		Short: "change a key, and finish the change once every node has confirmed it",
		Long: `Change a key: task, trust, statement or root. The new key is added to the trust
bundle at once; the old one stays until every node that is not deleted has
confirmed the new bundle. --finish then takes the old one out. Nodes that never
will must be named with --leave-behind: they need a new enrolment afterwards.
Where several brokers share a database, copy the directory keys of the one that
made the new key to the others: they are named until they have it.`,
		Example: "  hostler trust rotate --use task --reason 'yearly'\n  hostler trust rotate --finish --reason 'yearly'\n  hostler trust rotate --finish --leave-behind gpu-07 --reason 'gpu-07 burnt down'",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case finish && use != "":
				return usage("cannot begin and finish a rotation at once (say --use or --finish)")
			case !finish && use == "":
				return usage("cannot tell which key to change (say --use task, trust, statement or root; or --finish)")
			case !finish && len(behind) > 0:
				return usage("--leave-behind goes with --finish")
			}
			if err := needReason(reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if !finish {
				if err := a.confirm(c, "change the %s key of %s?", use, remote.Broker()); err != nil {
					return err
				}
				t, err := remote.RotateTrust(c.Context(), api.TrustRotate{Use: use, Reason: reason})
				if err != nil {
					return err
				}
				if use == string(pki.UseRoot) {
					a.note("note: before --finish, every client must learn the new root: the broker has written it to its client.yaml, and each operator's context learns it with the next hostler command; copies of client.yaml, --ca-file in scripts, and whatever scrapes /metrics must be given it by hand (hostler trust show -o json has it)")
				}
				return a.showTrust(t)
			}
			ids, names := []string{}, []string{}
			for _, ref := range behind {
				n, err := remote.Node(c.Context(), ref)
				if err != nil {
					return err
				}
				ids, names = append(ids, n.ID), append(names, n.Hostname)
			}
			question := "finish the rotation?"
			if len(names) > 0 {
				question = "finish the rotation and leave " + strings.Join(names, ", ") + " behind? They will need a new enrolment."
			}
			before, err := remote.Trust(c.Context())
			if err != nil {
				return err
			}
			if r := before.Rotation; r != nil && r.Use == string(pki.UseRoot) {
				a.note("warning: whoever has not learned root %s by then cannot tell the broker any more (%s since the rotation began; each operator's context learns it with any hostler command, copies of client.yaml do not)", r.NewKeyID, a.now().Sub(r.StartedAt).Truncate(time.Second))
			}
			if err := a.confirm(c, "%s", question); err != nil {
				return err
			}
			t, err := remote.FinishTrust(c.Context(), api.TrustFinish{LeaveBehind: ids, Reason: reason})
			if err != nil {
				return err
			}
			return a.showTrust(t)
		},
	}
	c.Flags().StringVar(&use, "use", "", "which key: task, trust, statement or root")
	c.Flags().BoolVar(&finish, "finish", false, "take the old key out")
	c.Flags().StringSliceVar(&behind, "leave-behind", nil, "finish without these `NODE`s")
	reasonFlag(c, &reason)
	yesFlag(c)
	_ = c.RegisterFlagCompletionFunc("use", cobra.FixedCompletions([]string{"task", "trust", "statement", "root"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}
