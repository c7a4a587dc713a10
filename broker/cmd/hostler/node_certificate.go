package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func nodeCertificateCommand(a *app) *cobra.Command {
	return noun("certificate", "list and deny the certificates of a node", "  hostler node certificate list gpu-07",
		nodeCertificateListCommand(a), nodeCertificateDenyCommand(a))
}

func (a *app) showNodeCertificates(l *api.NodeCertificateList) error {
	serials, rows := []string{}, [][]string{}
	for _, c := range l.Items {
		state := c.State
		if c.Newest {
			state += ", newest"
		}
		serials = append(serials, c.Serial)
		rows = append(rows, []string{
			c.Serial, state, strconv.FormatInt(c.Epoch, 10), render.Short(c.Key), render.Ago(c.IssuedAt, a.now()),
			render.Time(c.NotAfter), c.Reason,
		})
	}
	return a.show(l, serials, func(p *render.Page) {
		p.Table([]render.Column{
			render.ID("SERIAL"), render.Keep("STATE"), render.Aside("EPOCH"), render.Aside("KEY"), render.More("ISSUED"),
			render.Main("ENDS"), render.Keep("BECAUSE"),
		}, rows)
		if len(rows) == 0 {
			a.note("no certificates are on record (a node gets its first certificate when it enrols)")
		}
		if n := notDenied(l); n > 1 {
			a.note("%s", unknownCertificateHint(l, n))
		}
	})
}

func nodeCertificateListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list NODE", Short: "list a node's certificates: valid, denied, superseded, expired", Args: exactly("NODE"),
		Long: `List the certificates of a node, oldest first. A valid certificate is accepted. A
denied certificate is refused, for the reason in BECAUSE. A superseded certificate
is from an earlier enrolment and is refused. An expired certificate can only be
renewed, for 30 days. A renewal keeps the key: certificates with the same KEY were
issued to the holder of that private key. If several certificates are valid or
expired, brokers cannot tell which of them the node itself uses: the newest is a
thief's, if the thief renewed last.`,
		Example: "  hostler node certificate list gpu-07",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.NodeCertificates(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showNodeCertificates(l)
		},
	}
}

func nodeCertificateDenyCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "deny NODE SERIAL --reason R", Short: "deny one certificate of a node, such as a stolen one", Args: exactly("NODE", "SERIAL"),
		Long: `Deny one certificate of a node (platform_admin). Within two seconds every broker
refuses the certificate, ends the polls that wait with it and closes its connections
to the relay. The certificate is never renewed. The node's record and its other
certificates stay unchanged. A denial cannot be undone.

A node whose own certificate is denied is shut out: it receives no tasks, reports
nothing and goes offline. Only a new token brings the node back: on the machine, run
what hostler node token issue NODE prints.

Whoever has a certificate's private key may have renewed the certificate, and
brokers cannot tell the node's certificate from a thief's. Make a copied key
worthless before you deny one of several certificates: on the machine, run what
hostler node token issue NODE prints; or, if the thief does not act as the node, run
hostler task enqueue NODE node.rotate_identity --wait. Each gives the node a new
key, and denies the earlier certificates as soon as the node uses the new key.

A certificate that a rotation has replaced, or that is from before the machine was
returned, is already denied, but still gets a connection, so that brokers can report
whoever presents it. If you deny such a certificate too, it gets no connection, and
its use is no longer reported.`,
		Example: "  hostler node certificate deny gpu-07 4f0c9a31 --reason 'copied from a backup, ticket 4711'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if !saidYes(c) {
				l, err := remote.NodeCertificates(c.Context(), args[0])
				if err != nil {
					return err
				}
				// The broker refuses a serial that the node does not have.
				if i := slices.IndexFunc(l.Items, func(c api.NodeCertificate) bool { return c.Serial == args[1] }); i >= 0 {
					if err := a.confirm(c, "deny certificate %s of node %s (%s)? This cannot be undone. %s", args[1], l.Hostname, l.NodeID,
						denialEffect(l, l.Items[i])); err != nil {
						return err
					}
				}
				args[0] = l.NodeID // the node that the question named
			}
			l, err := remote.DenyNodeCertificate(c.Context(), args[0], args[1], reason)
			if err != nil {
				return err
			}
			return a.showNodeCertificates(l)
		},
	}
	reasonFlag(c, &reason)
	yesFlag(c)
	return c
}

// mayBeInUse reports whether a node may use a certificate: an expired certificate can be renewed.
func mayBeInUse(c api.NodeCertificate) bool { return c.State == "valid" || c.State == "expired" }

func notDenied(l *api.NodeCertificateList) (n int) {
	for _, c := range l.Items {
		if mayBeInUse(c) {
			n++
		}
	}
	return n
}

// denialEffect says what the denial does to the node.
func denialEffect(l *api.NodeCertificateList, c api.NodeCertificate) string {
	n := notDenied(l)
	switch {
	case !mayBeInUse(c):
		return "This certificate is refused already (" + c.State + "): the node's other certificates are not touched."
	case n == 1:
		return "The node has no other certificate: the node is shut out and needs a new token (hostler node token issue)."
	}
	return "If the node itself uses this certificate, the node is shut out and needs a new token. " + unknownCertificateHint(l, n)
}

// unknownCertificateHint says why the certificate in use is unknown, and what to do.
func unknownCertificateHint(l *api.NodeCertificateList, n int) string {
	return fmt.Sprintf("%d certificates are valid or expired, and it is not known which of them the node itself uses: whoever has the key may have renewed, and may have the newest. "+
		"The safe way is a new key, which denies all of them: on the machine, run what hostler node token issue %s prints, "+
		"or run hostler task enqueue %[2]s node.rotate_identity --wait", n, l.Hostname)
}
