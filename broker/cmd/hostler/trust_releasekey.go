package main

import (
	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func trustAddReleaseKeyCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "add-release-key FILE --reason R",
		Short: "have nodes believe releases of the agent that a key signed",
		Long: `Have nodes believe releases of the agent that a key signed. FILE is the key's
public half in PEM, as cosign generate-key-pair writes it (cosign.pub): ECDSA
P-256 or Ed25519. The private half stays with whoever signs, and is never on a
broker. Nodes learn of it with the trust bundle; hostler trust show says which
have not yet.`,
		Example: "  hostler trust add-release-key cosign.pub --reason 'releases of our CI'",
		Args:    exactly("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			raw, err := a.readBounded(args[0])
			if err != nil {
				return err
			}
			// The key is checked here first, so that a private key never leaves this machine.
			pub, err := pki.ParsePublicKey(raw)
			if err != nil {
				return broker.Errorf(broker.Invalid, string(taskcatalog.CodeOf(err, pki.CodeMalformed)), "cannot use %s as a release key: %v", args[0], err)
			}
			id, err := pki.KeyID(pub)
			if err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if err := a.confirm(c, "have every node of %s believe releases that key %s signed?", remote.Broker(), id); err != nil {
				return err
			}
			t, err := remote.AddReleaseKey(c.Context(), api.ReleaseKeyPut{PublicKey: string(raw), Reason: reason})
			if err != nil {
				return err
			}
			return a.showTrust(t)
		},
	}
	reasonFlag(c, &reason)
	yesFlag(c)
	return c
}

func trustRetireReleaseKeyCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "retire-release-key ID --reason R",
		Short: "have nodes believe a release key no more",
		Long: `Have nodes believe a release key no more. Releases that only it signed are refused
from then on by the broker and by each node that has the new trust bundle; what
runs goes on. The last key stays: add the next one before.`,
		Example: "  hostler trust retire-release-key 0f1e2d3c4b5a6978 --reason 'the laptop it was on was stolen'",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if err := a.confirm(c, "have the nodes of %s believe release key %s no more?", remote.Broker(), args[0]); err != nil {
				return err
			}
			t, err := remote.RetireReleaseKey(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.showTrust(t)
		},
	}
	reasonFlag(c, &reason)
	yesFlag(c)
	return c
}
