package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/pki"
)

// rotation is what an operator asks of trust rotate.
type rotation struct {
	*app
	use, reason string
	finish      bool
	behind      []string
}

func trustRotateCommand(a *app) *cobra.Command {
	r := &rotation{app: a}
	c := &cobra.Command{
		Use:   "rotate --use USE --reason R",
		Short: "rotate a key, and finish the rotation once every node has confirmed it",
		Long: `Rotate a key: task, trust, statement or root. The new key is added to the trust
bundle at once; the old key stays until every node that is not deleted has confirmed
the new bundle. --finish then removes the old key. Nodes that will never confirm
must be named with --leave-behind: they need a new enrolment afterwards. If several
brokers share a database, copy the directory keys of the broker that made the new
key to the others: hostler trust show names them until they have it.`,
		Example: "  hostler trust rotate --use task --reason 'yearly'\n  hostler trust rotate --finish --reason 'yearly'\n  hostler trust rotate --finish --leave-behind gpu-07 --reason 'gpu-07 burnt down'",
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return r.run(c) },
	}
	c.Flags().StringVar(&r.use, "use", "", "which key: task, trust, statement or root")
	c.Flags().BoolVar(&r.finish, "finish", false, "remove the old key")
	c.Flags().StringSliceVar(&r.behind, "leave-behind", nil, "finish without these `NODE`s")
	reasonFlag(c, &r.reason)
	yesFlag(c)
	return c
}

func (r *rotation) run(c *cobra.Command) error {
	switch {
	case r.finish && r.use != "":
		return usage("cannot start and finish a rotation at once (use --use or --finish)")
	case !r.finish && r.use == "":
		return usage("no key to rotate is given (use --use task, trust, statement or root; or --finish)")
	case !r.finish && len(r.behind) > 0:
		return usage("--leave-behind goes with --finish only")
	}
	if err := needReason(r.reason); err != nil {
		return err
	}
	remote, err := r.connect()
	if err != nil {
		return err
	}
	if r.finish {
		return r.end(c, remote)
	}
	return r.begin(c, remote)
}

func (r *rotation) begin(c *cobra.Command, remote *client.Client) error {
	if err := r.confirm(c, "rotate the %s key of %s?", r.use, remote.Broker()); err != nil {
		return err
	}
	t, err := remote.RotateTrust(c.Context(), api.TrustRotate{Use: r.use, Reason: r.reason})
	if err != nil {
		return err
	}
	if r.use == string(pki.UseRoot) {
		r.note("note: before --finish, every client must learn the new root: the broker has written it to its client.yaml, and each operator's context learns it with the next hostler command; copies of client.yaml, --ca-file in scripts, and programs that scrape /metrics must be given the root by hand (hostler trust show -o json has it)")
	}
	return r.showTrust(t)
}

func (r *rotation) end(c *cobra.Command, remote *client.Client) error {
	ids, names := []string{}, []string{}
	for _, ref := range r.behind {
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
	if old := before.Rotation; old != nil && old.Use == string(pki.UseRoot) {
		r.note("warning: a client that has not learned root %s by then no longer recognises the broker (%s since the rotation began; each operator's context learns it with any hostler command, copies of client.yaml do not)", old.NewKeyID, r.now().Sub(old.StartedAt).Truncate(time.Second))
	}
	if err := r.confirm(c, "%s", question); err != nil {
		return err
	}
	t, err := remote.FinishTrust(c.Context(), api.TrustFinish{LeaveBehind: ids, Reason: r.reason})
	if err != nil {
		return err
	}
	return r.showTrust(t)
}
