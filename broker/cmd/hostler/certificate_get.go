package main

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/certificate"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func certificateListCommand(a *app) *cobra.Command {
	var node string
	c := &cobra.Command{
		Use: "list", Short: "list clean certificates, newest first", Args: exactly(),
		Example: "  hostler certificate list --node gpu-07",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.CleanCertificates(c.Context(), node)
			if err != nil {
				return err
			}
			ids, rows := []string{}, [][]string{}
			for _, k := range l.Items {
				ids = append(ids, k.CertificateID)
				rows = append(rows, []string{
					k.CertificateID, k.NodeID, k.Mode, render.YesNo(k.MeetsPolicy),
					strings.Join(k.Shortfalls, ", "), k.AllocationID, render.Ago(k.IssuedAt, a.now()), render.Time(k.ValidUntil),
				})
			}
			return a.show(l, ids, func(p *render.Page) {
				p.Table([]render.Column{
					render.ID("ID"), render.NodeID("NODE"), render.Main("MODE"), render.Keep("MEETS POLICY"),
					render.Keep("FALLS SHORT IN"), render.Aside("ALLOCATION"), render.More("ISSUED"), render.Keep("GOOD UNTIL"),
				}, rows)
				if len(rows) == 0 {
					a.note("no certificates")
				}
			})
		},
	}
	c.Flags().StringVar(&node, "node", "", "only certificates of this `NODE`")
	return c
}

func certificateGetCommand(a *app) *cobra.Command {
	var out, page string
	var receipt bool
	c := &cobra.Command{
		Use: "get ID", Short: "download a clean certificate or an attestation, as signed", Args: exactly("ID"),
		Long: `Download a clean certificate exactly as signed, byte for byte, for hostler
certificate verify or another verifier. --receipt selects the tenant's version,
which names none of your nodes, hosts and sites. ID may also be the id of an
attestation.`,
		Example: "  hostler certificate get r-019f2c1a7b3k5x7e2q9d4.1 --out gpu-07.json\n  hostler certificate get r-019f2c1a7b3k5x7e2q9d4.1 --receipt --out receipt.json",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			file, digest, err := signedFile(c.Context(), remote, args[0], receipt)
			if err != nil {
				return err
			}
			if page != "" {
				if err := a.writePage(c.Context(), page, file); err != nil {
					return err
				}
			}
			return a.writeSigned(out, file, digest)
		},
	}
	c.Flags().StringVar(&out, "out", "", "write to `FILE` instead of stdout")
	c.Flags().StringVar(&page, "html", "", "also write an HTML page to `FILE`, if the certificate verifies with the broker's trust bundle")
	c.Flags().BoolVar(&receipt, "receipt", false, "download the tenant's version")
	return c
}

// signedFile fetches a certificate, its receipt, or an attestation as the signed file.
func signedFile(ctx context.Context, remote *client.Client, id string, receipt bool) (file, digest string, err error) {
	switch {
	case receipt:
		k, err := remote.Receipt(ctx, id)
		if err != nil {
			return "", "", err
		}
		return k.File, k.Digest, nil
	case strings.HasPrefix(id, "att-"):
		t, err := remote.Attestation(ctx, id)
		if err != nil {
			return "", "", err
		}
		return t.File, t.Digest, nil
	}
	k, err := remote.CleanCertificate(ctx, id)
	if err != nil {
		return "", "", err
	}
	return k.File, k.Digest, nil
}

// writePage writes the page of a file that verifies against the broker's own trust bundle.
func (a *app) writePage(ctx context.Context, path, file string) error {
	trust, err := a.trustOf(ctx, "")
	if err != nil {
		return err
	}
	r, err := certificate.Verify([]byte(file), trust, a.now())
	if err != nil {
		return verificationError(err)
	}
	return writeHTML(path, r)
}

func writeHTML(path string, r *certificate.Report) error {
	html, err := certificate.Page(r)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, html, 0o644); err != nil {
		return broker.Errorf(broker.Internal, "output_failed", "cannot write %s: %v", path, err)
	}
	return nil
}
