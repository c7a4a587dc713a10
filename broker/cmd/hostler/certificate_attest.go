package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func certificateAttestCommand(a *app) *cobra.Command {
	var d api.AttestationPut
	var out string
	c := &cobra.Command{
		Use: "attest NODE", Short: "record a person's statement about a part that no longer runs", Args: exactly("NODE"),
		Long: `Record a person's statement about a part that no longer runs, for which no machine
can sign. The part must be expected and missing. The witness must be a person other
than you. The statement appears on the node's next certificate, marked as a person's
statement. From then on the part is no longer expected.`,
		Example: "  hostler certificate attest gpu-07 --device S5X0A11 --method destroyed --witness 'Bo Lindqvist' --reason 'shredded, ticket 4711'",
		RunE: func(c *cobra.Command, args []string) error {
			for _, f := range []struct{ flag, value string }{{"device", d.Device}, {"method", d.Method}, {"witness", d.Witness}} {
				if f.value == "" {
					return usage("say --%s", f.flag)
				}
			}
			if d.Method != "destroyed" && d.Method != "removed" {
				return usage("--method is destroyed or removed")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if err := a.confirmOnTerminal(c, "sign that %s of %s was %s, witnessed by %s? The statement is kept and cannot be undone.",
				d.Device, args[0], d.Method, d.Witness); err != nil {
				return err
			}
			t, err := remote.Attest(c.Context(), args[0], d)
			if err != nil {
				return err
			}
			if out != "" {
				if err := os.WriteFile(out, []byte(t.File), 0o644); err != nil {
					return broker.Errorf(broker.Internal, "output_failed",
						"the statement is recorded as %s, but cannot be written to %s: %v", t.AttestationID, out, err)
				}
			}
			return a.show(t, []string{t.AttestationID}, func(p *render.Page) {
				p.Fields("attestation", t.AttestationID, "part", t.Kind+" "+t.Device, "node", t.NodeID, "was", d.Method, "says", d.Witness,
					"recorded", moment(a, t.IssuedAt), "file", t.Digest)
				a.note("the node's next certificate shows this as a person's statement")
			})
		},
	}
	f := c.Flags()
	f.StringVar(&d.Device, "device", "", "the part, by its `SERIAL` or id (hostler node device list)")
	f.StringVar(&d.Method, "method", "", "what happened to the part: destroyed or removed")
	f.StringVar(&d.Witness, "witness", "", "name of the witness, a person other than you")
	f.StringVar(&out, "out", "", "write the signed statement to `FILE`")
	reasonFlag(c, &d.Reason)
	yesFlag(c)
	return c
}
