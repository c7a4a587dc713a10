package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func allocationCertificateCommand(a *app) *cobra.Command {
	var project, out string
	c := &cobra.Command{
		Use: "certificate ID [CERTIFICATE]", Short: "list the certificates that ended an allocation, or download the receipt of one",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactly("ID")(c, args)
		},
		Long: `List the certificates of the turnovers that ended an allocation: the proof, node by
node, that the tenant's data were removed. With CERTIFICATE, download the tenant's
receipt of that certificate, exactly as signed. --out alone is enough where there is
one certificate. hostler-verify checks a receipt without a network, with the trust
file of the issuer. Each download of a receipt gives the same file.`,
		Example: "  hostler allocation certificate alc-019c4e6a2f1k7m2q4s6t8w\n" +
			"  hostler allocation certificate alc-019c4e6a2f1k7m2q4s6t8w r-019f2c1a7b3k5x7e2q9d4.1 --out receipt.json",
		RunE: func(c *cobra.Command, args []string) error {
			remote, project, err := a.connectTo(c.Context(), project, args[0])
			if err != nil {
				return err
			}
			certificate := ""
			if len(args) == 2 {
				certificate = args[1]
			} else {
				l, err := remote.AllocationCertificates(c.Context(), project, args[0])
				switch {
				case err != nil:
					return err
				case out == "":
					return a.showAllocationCertificates(l)
				case len(l.Items) != 1:
					return usage("allocation %s has %s, and --out takes the receipt of one (name it: hostler allocation certificate %s CERTIFICATE --out FILE)",
						args[0], plural(len(l.Items), "certificate"), args[0])
				}
				certificate = l.Items[0].CertificateID
			}
			r, err := remote.AllocationReceipt(c.Context(), project, args[0], certificate)
			if err != nil {
				return err
			}
			return a.writeSigned(out, r.File, r.Digest)
		},
	}
	allocationProjectFlag(c, &project)
	c.Flags().StringVar(&out, "out", "", "write the receipt to `FILE` instead of stdout")
	return c
}

func (a *app) showAllocationCertificates(l *api.AllocationCertificateList) error {
	ids, rows := []string{}, [][]string{}
	for _, k := range l.Items {
		ids = append(ids, k.CertificateID)
		rows = append(rows, []string{k.CertificateID, render.YesNo(k.MeetsPolicy), render.Time(k.IssuedAt), k.Digest})
	}
	return a.show(l, ids, func(p *render.Page) {
		p.Table([]render.Column{render.ID("CERTIFICATE"), render.Keep("MEETS POLICY"), render.Keep("ISSUED"), render.More("DIGEST")}, rows)
		if len(rows) == 0 {
			a.note("no certificates (they come with the release: hostler allocation watch ID)")
		}
	})
}

// writeSigned writes a signed file to FILE, or to stdout if no FILE is named.
func (a *app) writeSigned(out, file, digest string) error {
	if out == "" {
		_, err := a.out.Write([]byte(file))
		return err
	}
	if err := os.WriteFile(out, []byte(file), 0o644); err != nil {
		return broker.Errorf(broker.Internal, "output_failed", "cannot write %s: %v", out, err)
	}
	a.note("%s: %s", out, digest)
	return nil
}
