package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func artifactSignerCommand(a *app) *cobra.Command {
	return noun("artifact-signer", "signers whose signatures of artifacts operations believe",
		"  hostler artifact-signer list",
		signerSetCommand(a), signerListCommand(a), signerRemoveCommand(a))
}

func signerSetCommand(a *app) *cobra.Command {
	var put api.ArtifactSignerPut
	var key, root string
	c := &cobra.Command{
		Use:   "set NAME --source KIND:PREFIX (--key FILE | --issuer URL --subject S --trusted-root FILE) --reason R",
		Short: "set a signer whose signatures of artifacts are believed", Args: exactly("NAME"),
		Long: `Set a signer whose signatures of artifacts are believed. From then on every OCI
artifact or file of the source needs a signature, whatever the policy of operations
says: the broker verifies it before it signs a plan, and refuses the plan otherwise.

  --key FILE     a public key, such as cosign.pub (P-256 or Ed25519)
  --issuer URL   an identity of this OpenID Connect provider, to which Fulcio gave a
                 certificate: --subject is all of the identity, and --subject-pattern
                 a regular expression of all of it. --trusted-root is Sigstore's
                 trusted_root.json, with the authorities and logs; the broker
                 neither fetches nor renews it. The signature must be in a log of
                 it. With a key, too, if one is given.

One signer of a source suffices. If signers are set for oci:registry.example and for
oci:registry.example/models, an artifact below the second needs a signature of each
source. Signatures of OCI artifacts are read from the artifact's own registry, over
TLS. The signature of a file (s3:, gcs:, huggingface:, https_signed:) is given with the
file, as the argument signature of the step that pulls it.`,
		Example: "  hostler artifact-signer set team --source oci:registry.example/models --key cosign.pub --reason 'our models'\n" +
			"  hostler artifact-signer set files --source s3:models/public --key cosign.pub --reason 'our models'",
		RunE: func(c *cobra.Command, args []string) error {
			if put.Source == "" {
				return usage("no source is given (use --source oci:REGISTRY[/PATH], or s3:BUCKET/PREFIX and the like for files)")
			}
			if err := needReason(put.Reason); err != nil {
				return err
			}
			if err := a.readText(key, &put.Key); err != nil {
				return err
			}
			if err := a.readText(root, &put.TrustedRoot); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			kept, err := remote.SetArtifactSigner(c.Context(), args[0], put)
			if err != nil {
				return err
			}
			return a.showSigners(kept, []api.ArtifactSigner{*kept})
		},
	}
	f := c.Flags()
	f.StringVar(&put.Source, "source", "", "`SOURCE` that the signer signs: oci:REGISTRY[/PATH], or s3:, gcs:, huggingface: or https_signed:PREFIX")
	f.StringVar(&key, "key", "", "`FILE` with the signer's public key")
	f.StringVar(&put.Issuer, "issuer", "", "`URL` of the provider that knows the identity")
	f.StringVar(&put.Subject, "subject", "", "the identity")
	f.StringVar(&put.SubjectPattern, "subject-pattern", "", "regular expression of the whole identity")
	f.StringVar(&root, "trusted-root", "", "`FILE` with Sigstore's trusted_root.json")
	reasonFlag(c, &put.Reason)
	return c
}

func signerListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "list the signers whose signatures of artifacts are believed", Args: exactly(),
		Example: "  hostler artifact-signer list",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.ArtifactSigners(c.Context())
			if err != nil {
				return err
			}
			return a.showSigners(l, l.Items)
		},
	}
}

func signerRemoveCommand(a *app) *cobra.Command {
	var reason string
	var unsigned bool
	c := &cobra.Command{
		Use: "remove ARTIFACT-SIGNER --reason R", Short: "remove a signer", Args: exactly("ARTIFACT-SIGNER"),
		Long: `Remove a signer. Its signatures are believed no more, and plans that rest on them are
refused. If it was the last signer of its source, artifacts of the source need a
signature only where the policy, a definition or a signer of a wider source says so. If
operations could then bring artifacts from there unsigned, the command names them, and
removes the signer with --allow-unsigned alone.`,
		Example: "  hostler artifact-signer remove team --reason 'another team' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "remove artifact signer %s? Its signatures are believed no more", args[0]); err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			r, err := remote.RemoveArtifactSigner(c.Context(), args[0], reason, unsigned)
			if err != nil {
				return err
			}
			return a.show(r, []string{r.Name}, func(p *render.Page) { p.Line("removed: " + r.Name + ", for " + r.Source) })
		},
	}
	c.Flags().BoolVar(&unsigned, "allow-unsigned", false, "also if operations could then bring artifacts of its source unsigned")
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

// readText reads a document into text; no path: text stays empty.
func (a *app) readText(path string, text *string) error {
	if path == "" {
		return nil
	}
	raw, err := a.readBounded(path)
	*text = string(raw)
	return err
}

func (a *app) showSigners(v any, items []api.ArtifactSigner) error {
	names, rows := []string{}, [][]string{}
	for _, s := range items {
		log := "no"
		if s.Logged {
			log = "yes"
		}
		names = append(names, s.Name)
		rows = append(rows, []string{
			s.Name, s.Source, cmp.Or(s.Subject, s.SubjectPattern, "a key"), s.Issuer, log, s.SetBy, render.Ago(s.SetAt, a.now()), s.Reason,
		})
	}
	return a.show(v, names, func(p *render.Page) {
		p.Table([]render.Column{
			render.Keep("NAME"), render.Main("SOURCE"), render.Keep("SIGNER"), render.More("ISSUER"), render.Aside("LOG"), render.Aside("SET BY"),
			render.More("SET"), render.Keep("REASON"),
		}, rows)
		if len(rows) == 0 {
			a.note("no artifact signers: where the policy requires a signature of an artifact, the artifact is refused")
		}
	})
}
