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
	return noun("certificate", "the certificates by which brokers know a node", "  hostler node certificate list gpu-07",
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
		rows = append(rows, []string{c.Serial, state, strconv.FormatInt(c.Epoch, 10), render.Short(c.Key), render.Ago(c.IssuedAt, a.now()), render.Time(c.NotAfter), c.Reason})
	}
	return a.show(l, serials, func(p *render.Page) {
		p.Table([]render.Column{
			render.ID("SERIAL"), render.Keep("STATE"), render.Aside("EPOCH"), render.Aside("KEY"), render.More("ISSUED"),
			render.Main("ENDS"), render.Keep("BECAUSE"),
		}, rows)
		if len(rows) == 0 {
			a.note("no certificates are on record (the node has one once it has enrolled)")
		}
		if n := notDenied(l); n > 1 {
			a.note("%s", whichIsNotKnown(l, n))
		}
	})
}

func nodeCertificateListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list NODE", Short: "list a node's certificates: valid, denied, superseded, expired", Args: exactly("NODE"),
		Long: `List the certificates by which brokers know a node, the oldest first. A valid
certificate is let in. A denied one is refused, for the reason in BECAUSE. A superseded
one is of an earlier enrolment and is refused. An expired one can only be renewed, for
30 days. A renewal keeps the key: certificates with the same KEY were issued to whoever
has that private key. Where several are valid or expired, which of them the node itself
uses is not known: the newest is a thief's, if the thief renewed last.`,
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
		Use: "deny NODE SERIAL --reason R", Short: "refuse one certificate of a node, such as a stolen one", Args: exactly("NODE", "SERIAL"),
		Long: `Refuse one certificate of a node from now on (platform_admin). Within two seconds every
broker refuses it, ends the polls that wait with it and closes its connections to the
relay. It is never renewed. The node's record and its other certificates stay as they
are. A denial cannot be taken back.

A node whose own certificate is denied is shut out: it is told no tasks, reports nothing
and goes offline. It comes back by a new token only: run what hostler node token issue
NODE prints on the machine.

Whoever has a certificate's private key can have renewed it, and brokers do not know which
certificate is the node's and which a thief's. Make a copied key worthless before you deny
one of several: run what hostler node token issue NODE prints on the machine, or hostler
task enqueue NODE node.rotate_identity --wait where the thief does not act as the node.
Each gives the node another key, and denies the certificates from before as soon as the
node is heard with it.

A certificate that a rotation has replaced, or from before the machine was given back, is
denied already and still gets a connection, to tell of whoever shows it. Denied by you as
well, it gets no connection, and who shows it is told of no more.`,
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
					if err := a.confirm(c, "deny certificate %s of node %s (%s)? This cannot be taken back. %s", args[1], l.Hostname, l.NodeID, whatDenialMeans(l, l.Items[i])); err != nil {
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

// whatDenialMeans says what the denial does to the node.
func whatDenialMeans(l *api.NodeCertificateList, c api.NodeCertificate) string {
	n := notDenied(l)
	switch {
	case !mayBeInUse(c):
		return "It is refused already (" + c.State + "): the node's other certificates are not touched."
	case n == 1:
		return "The node has no other: the node is shut out and needs a new token (hostler node token issue)."
	}
	return "If it is the one that the node uses, the node is shut out and needs a new token. " + whichIsNotKnown(l, n)
}

// whichIsNotKnown says why the certificate in use is unknown, and what to do.
func whichIsNotKnown(l *api.NodeCertificateList, n int) string {
	return fmt.Sprintf("%d certificates are valid or expired, and which of them the node itself uses is not known: whoever has the key can have renewed, also the newest. "+
		"The safe way is another key, which denies all of them: run on the machine what hostler node token issue %s prints, "+
		"or hostler task enqueue %[2]s node.rotate_identity --wait", n, l.Hostname)
}
