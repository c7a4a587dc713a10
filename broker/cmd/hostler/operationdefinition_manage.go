package main

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/broker/operation/definition"
	"github.com/hostler/hostler/taskcatalog"
)

func operationDefinitionPushCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "push DIR|FILE …", Short: "store definitions at the broker, as drafts", Args: exactly("DIR|FILE …"),
		Long: `Check definitions of operations, one in each file, and store them at the broker as
drafts. If one file has a fault, nothing is stored. Nothing runs a draft, and another
push of the same version replaces its content; hostler operation-definition activate
ends that. The content of a version that is not a draft never changes: push a new
version. It needs a platform_admin.`,
		Example: "  hostler operation-definition push model.artifact.stage@v2.yaml --reason 'a second bucket'",
		RunE: func(c *cobra.Command, args []string) error {
			all, err := a.readDefinitions(args)
			if err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			out := api.OperationDefinitionList{Items: []api.OperationDefinition{}}
			for _, d := range all {
				kept, err := remote.PushOperationDefinition(c.Context(), api.OperationDefinitionPush{
					File: filepath.Base(d.file.Name), Text: string(d.file.Text), Reason: reason,
				})
				if err != nil {
					for _, before := range out.Items {
						a.note("%s is stored, and is %s", before.ID, before.Status)
					}
					return err
				}
				kept.Definition = nil // as in a list
				out.Items = append(out.Items, *kept)
			}
			return a.showDefinitions(out)
		},
	}
	reasonFlag(c, &reason)
	return c
}

func operationDefinitionActivateCommand(a *app) *cobra.Command {
	var digest, reason string
	c := &cobra.Command{
		Use: "activate ID", Short: "make a draft active, so that it can run and never changes", Args: exactly("ID"),
		Long: `Make a draft active. From then on its content never changes. The command names the
digest of the content to the broker: if another push has replaced the draft
meanwhile, the broker refuses (operation_definition_changed). --digest names the
content that somebody has read, as validate and show print it; without --digest it is
what the broker has now. It needs a platform_admin.`,
		Example: "  hostler operation-definition activate model.artifact.stage@v2 --reason 'reviewed by bob'",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if digest == "" {
				d, err := remote.OperationDefinition(c.Context(), args[0])
				if err != nil {
					return err
				}
				digest = d.Digest
			}
			if err := a.confirmOnTerminal(c, "activate definition %s with the content %s, which then never changes?", args[0], digest); err != nil {
				return err
			}
			d, err := remote.ActivateOperationDefinition(c.Context(), args[0], digest, reason)
			if err != nil {
				return err
			}
			return a.showDefinition(d)
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	c.Flags().StringVar(&digest, "digest", "", "`DIGEST` of the content that was read (sha256:…)")
	return c
}

func operationDefinitionListCommand(a *app) *cobra.Command {
	var operation, status string
	c := &cobra.Command{
		Use: "list", Short: "list the definitions that the broker keeps", Args: exactly(),
		Example: "  hostler operation-definition list\n  hostler operation-definition list --operation model.artifact.stage --status active -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			l, err := remote.OperationDefinitions(c.Context(), operation, status)
			if err != nil {
				return err
			}
			return a.showDefinitions(*l)
		},
	}
	c.Flags().StringVar(&operation, "operation", "", "only versions of this `OPERATION`, such as model.artifact.stage")
	c.Flags().StringVar(&status, "status", "", "only in this status: draft, active, deprecated, retired")
	return c
}

func (a *app) showDefinitions(l api.OperationDefinitionList) error {
	ids, rows := []string{}, [][]string{}
	for _, d := range l.Items {
		ids = append(ids, d.ID)
		rows = append(rows, []string{
			d.ID, d.Status, d.Summary, render.YesNo(d.Shipped), render.Ago(d.ChangedAt, a.now()), d.ChangedBy, d.Digest,
		})
	}
	return a.show(l, ids, func(p *render.Page) {
		p.Table([]render.Column{
			render.ID("ID"), render.Keep("STATUS"), render.Main("SUMMARY"), render.More("SHIPPED"), render.Aside("CHANGED"), render.Aside("BY"),
			render.More("DIGEST"),
		}, rows)
		if len(rows) == 0 {
			a.note("no definitions (store one: hostler operation-definition push FILE)")
		}
	})
}

func operationDefinitionShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "show a definition with its inputs and steps", Args: exactly("ID"),
		Example: "  hostler operation-definition show model.artifact.stage@v1\n  hostler operation-definition show model.artifact.stage@v1 -o yaml",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			d, err := remote.OperationDefinition(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showDefinition(d)
		},
	}
}

func (a *app) showDefinition(d *api.OperationDefinition) error {
	return a.show(d, []string{d.ID}, func(p *render.Page) {
		p.Fields("id", d.ID, "summary", d.Summary, "status", d.Status, "digest", d.Digest, "shipped", render.YesNo(d.Shipped),
			"created", moment(a, d.CreatedAt), "created by", d.CreatedBy, "changed", moment(a, d.ChangedAt), "changed by", d.ChangedBy)
		var content definition.Definition
		if err := taskcatalog.DecodeStrict(d.Definition, &content); err != nil {
			a.note("this program cannot read the content (see -o json)")
			return
		}
		a.showContent(p, &content)
	})
}

func (a *app) showContent(p *render.Page, d *definition.Definition) {
	inputs, steps := [][]string{}, [][]string{}
	for _, name := range slices.Sorted(maps.Keys(d.Inputs.Properties)) {
		in := d.Inputs.Properties[name]
		inputs = append(inputs, []string{name, in.Type, render.YesNo(slices.Contains(d.Inputs.Required, name)), in.Description})
	}
	for _, s := range d.Steps {
		steps = append(steps, []string{s.ID, s.Kind, strconv.Itoa(s.TimeoutSeconds) + "s", strconv.Itoa(max(s.Attempts, 1))})
	}
	if len(inputs) > 0 {
		p.Title("Inputs")
		p.Table([]render.Column{render.Keep("NAME"), render.Keep("TYPE"), render.Keep("REQUIRED"), render.Main("DESCRIPTION")}, inputs)
	}
	p.Title("Steps")
	p.Table([]render.Column{render.ID("ID"), render.Keep("KIND"), render.Keep("TIMEOUT"), render.Keep("ATTEMPTS")}, steps)
}

func operationDefinitionDeprecateCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "deprecate ID --reason R", Short: "let a definition run with a warning", Args: exactly("ID"),
		Long: `Deprecate an active definition: it still runs, and who runs it is warned. There is no
way back; push a new version instead. It needs a platform_admin.`,
		Example: "  hostler operation-definition deprecate model.artifact.stage@v1 --reason 'v2 verifies signatures'",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirmOnTerminal(c, "deprecate definition %s?", args[0]); err != nil {
				return err
			}
			return a.moveDefinition(c, args[0], reason, (*client.Client).DeprecateOperationDefinition)
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func operationDefinitionRetireCommand(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "retire ID --reason R", Short: "end a deprecated definition, or discard a draft", Args: exactly("ID"),
		Long: `Retire a deprecated definition, or a draft: no execution begins any more. What runs
goes on. The record stays, and its version is never given again. There is no way
back. It needs a platform_admin.`,
		Example: "  hostler operation-definition retire model.artifact.stage@v1 --reason 'nobody uses it' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "retire definition %s, for ever?", args[0]); err != nil {
				return err
			}
			return a.moveDefinition(c, args[0], reason, (*client.Client).RetireOperationDefinition)
		},
	}
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func (a *app) moveDefinition(
	c *cobra.Command, id, reason string,
	move func(remote *client.Client, ctx context.Context, id, reason string) (*api.OperationDefinition, error),
) error {
	remote, err := a.connect()
	if err != nil {
		return err
	}
	d, err := move(remote, c.Context(), id, reason)
	if err != nil {
		return err
	}
	return a.showDefinition(d)
}

// operationDefinitionCandidates offers the definitions that are not retired.
func operationDefinitionCandidates(ctx context.Context, remote *client.Client, _ []string, _ string) (out []candidate, err error) {
	l, err := remote.OperationDefinitions(ctx, "", "")
	if err != nil {
		return nil, err
	}
	for _, d := range l.Items {
		if d.Status != string(broker.DefinitionRetired) {
			out = append(out, candidate{d.ID, d.Status + ", " + d.Summary})
		}
	}
	return out, nil
}
