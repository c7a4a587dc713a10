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
		Short: "make nodes accept agent releases that a key has signed",
		Long: `Make nodes accept agent releases that a key has signed. FILE is the key's public
half in PEM, as written by cosign generate-key-pair (cosign.pub): ECDSA P-256 or
Ed25519. The private half stays with the signer, and is never on a broker. Nodes get
the key with the trust bundle; hostler trust show lists the nodes that do not have
it yet.`,
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
				return broker.Errorf(broker.Invalid, string(taskcatalog.CodeOf(err, pki.CodeMalformed)),
					"cannot use %s as a release key: %v", args[0], err)
			}
			id, err := pki.KeyID(pub)
			if err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if err := a.confirm(c, "make every node of %s accept releases that key %s has signed?", remote.Broker(), id); err != nil {
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
		Short: "stop trusting a release key",
		Long: `Stop trusting a release key. The broker, and each node that has the new trust
bundle, then refuse releases that only this key signed; running agents continue. The
last key cannot be retired: add the next key first.`,
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
			if err := a.confirm(c, "make the nodes of %s stop trusting release key %s?", remote.Broker(), args[0]); err != nil {
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
