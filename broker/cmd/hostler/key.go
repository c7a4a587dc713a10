package main

import (
	"bytes"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func keyCommand(a *app) *cobra.Command {
	return noun("key", "SSH keys of members", "  hostler key list mem-019c4e6a2f1k7m2q4s6t8w",
		keyAddCommand(a), keyListCommand(a), keyRemoveCommand(a))
}

func keyAddCommand(a *app) *cobra.Command {
	var k api.SSHKeyAdd
	c := &cobra.Command{
		Use: "add MEMBER FILE", Short: "add a public key of a member", Args: exactly("MEMBER", "FILE"),
		Long: `Add a public key of a member from a .pub file, or from stdin with -. Keys of Ed25519,
ECDSA, RSA of at least 2048 bits, and security keys (sk-) are taken; options before
the type are not.`,
		Example: "  hostler key add mem-019c4e6a2f1k7m2q4s6t8w ~/.ssh/id_ed25519.pub",
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := a.readBounded(args[1])
			if err != nil {
				return err
			}
			// A private key stays on this machine, even if it is named by mistake.
			if bytes.Contains(raw, []byte("PRIVATE KEY")) || bytes.Contains(raw, []byte("Private-Lines")) {
				return broker.Errorf(broker.Invalid, "ssh_key_private", "cannot add %s: it is a private key (give the .pub file beside it)", args[1])
			}
			k.PublicKey = strings.TrimSpace(string(raw))
			remote, err := a.connect()
			if err != nil {
				return err
			}
			made, err := remote.AddSSHKey(c.Context(), args[0], k)
			if err != nil {
				return err
			}
			return a.showKeys(made, []api.SSHKey{*made})
		},
	}
	reasonFlag(c, &k.Reason)
	return c
}

func keyListCommand(a *app) *cobra.Command {
	var ended bool
	c := &cobra.Command{
		Use: "list MEMBER", Short: "list a member's keys", Args: exactly("MEMBER"),
		Example: "  hostler key list mem-019c4e6a2f1k7m2q4s6t8w",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			all, err := remote.SSHKeys(c.Context(), args[0], ended)
			if err != nil {
				return err
			}
			return a.showKeys(api.SSHKeyList{Items: all}, all)
		},
	}
	endedFlag(c, &ended)
	return c
}

func keyRemoveCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "remove MEMBER KEY --reason R", Short: "remove a key of a member", Args: exactly("MEMBER", "KEY"),
		Long:    `Remove a key. New accounts do not get it. The record stays.`,
		Example: "  hostler key remove mem-019c4e6a2f1k7m2q4s6t8w key-019c4e6b3a2n5p7r9t1v3x --reason 'laptop lost' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "remove key %s of member %s?", args[1], args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			k, err := remote.RemoveSSHKey(c.Context(), args[0], args[1], reason)
			if err != nil {
				return err
			}
			return a.showKeys(k, []api.SSHKey{*k})
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func (a *app) showKeys(v any, all []api.SSHKey) error {
	names, rows := []string{}, [][]string{}
	for _, k := range all {
		names = append(names, k.ID)
		rows = append(rows, []string{k.ID, k.Type, k.Fingerprint, k.Comment, endState(k.EndedAt), render.Ago(k.CreatedAt, a.now())})
	}
	return a.show(v, names, func(p *render.Page) {
		p.Table([]render.Column{
			render.ID("ID"), render.Main("TYPE"), render.Keep("FINGERPRINT"), render.More("COMMENT"), render.Keep("STATE"),
			render.Aside("CREATED"),
		}, rows)
		if len(rows) == 0 {
			a.note("no keys (add one: hostler key add)")
		}
	})
}
