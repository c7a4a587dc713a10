package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
)

func operationPolicyCommand(a *app) *cobra.Command {
	return noun("policy", "what operations may do: for all, for an organisation, for a project",
		"  hostler operation policy get model.artifact.stage --org acme",
		operationPolicyGetCommand(a), operationPolicyListCommand(a), operationPolicySetCommand(a),
		operationPolicyRemoveCommand(a), operationPolicyExplainCommand(a))
}

// levelFlags name the level of a policy; with neither it is the global one.
func levelFlags(c *cobra.Command, l *client.OperationLevel) {
	c.Flags().StringVar(&l.Organisation, "org", "", "the policy of this organisation, `ORG`: an id or a name")
	c.Flags().StringVar(&l.Project, "project", "", "the policy of this project, `PROJECT`: an id or a name")
}

// connectAt connects for a command that has levelFlags.
func (a *app) connectAt(l client.OperationLevel) (*client.Client, error) {
	if l.Organisation != "" && l.Project != "" {
		return nil, usage("use one of --org ORG and --project PROJECT")
	}
	return a.connect()
}

func operationPolicyGetCommand(a *app) *cobra.Command {
	var level client.OperationLevel
	c := &cobra.Command{
		Use: "get OPERATION [--org ORG | --project PROJECT]", Short: "show the policy of one level", Args: exactly("OPERATION"),
		Long: `Show what one level says of an operation: the global level, an organisation with
--org, or a project with --project. OPERATION has no version, and '*' stands for all
operations. hostler operation policy explain shows what all levels permit together.`,
		Example: "  hostler operation policy get model.artifact.stage\n  hostler operation policy get '*' --org acme",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connectAt(level)
			if err != nil {
				return err
			}
			p, err := remote.OperationPolicy(c.Context(), level, args[0])
			if err != nil {
				return err
			}
			return a.showOperationPolicy(p)
		},
	}
	levelFlags(c, &level)
	return c
}

func operationPolicyListCommand(a *app) *cobra.Command {
	var level client.OperationLevel
	c := &cobra.Command{
		Use: "list", Short: "list the policies of one level", Args: exactly(),
		Example: "  hostler operation policy list\n  hostler operation policy list --project acme/lab",
		RunE: func(c *cobra.Command, _ []string) error {
			remote, err := a.connectAt(level)
			if err != nil {
				return err
			}
			all, err := remote.OperationPolicies(c.Context(), level)
			if err != nil {
				return err
			}
			names, rows := []string{}, [][]string{}
			for _, p := range all {
				names = append(names, p.Operation)
				var keys []string
				for _, k := range broker.OperationKeys() {
					if v := operationKeyText(p.Policy, k); v != "" {
						keys = append(keys, k)
					}
				}
				rows = append(rows, []string{p.Operation, p.Level, strings.Join(keys, ", "), render.Ago(p.UpdatedAt, a.now())})
			}
			return a.show(api.OperationPolicyList{Items: all}, names, func(p *render.Page) {
				p.Table([]render.Column{render.Keep("OPERATION"), render.Main("LEVEL"), render.Keep("KEYS"), render.Aside("CHANGED")}, rows)
				if len(rows) == 0 {
					a.note("no policies at this level: it denies nothing")
				}
			})
		},
	}
	levelFlags(c, &level)
	return c
}

func operationPolicySetCommand(a *app) *cobra.Command {
	var level client.OperationLevel
	var put api.OperationPolicyPut
	var set operationKeyFlags
	c := &cobra.Command{
		Use: "set OPERATION KEY-FLAGS [--org ORG | --project PROJECT]", Short: "replace the policy of one level", Args: exactly("OPERATION"),
		Long: `Replace what one level says of an operation: the global level, an organisation with
--org, or a project with --project. OPERATION has no version, and '*' stands for all
operations. The operation need not exist yet. A key whose flag is left out says
nothing; "" as the only source or target kind permits none.

Conditions are expressions in CEL over facts of an execution, such as hour, sku and
labels: docs/how-to/operation-policy.md lists the facts. An execution is permitted only
if each condition of each level is true.

A level only narrows what the wider levels permit: a policy that would permit what a
wider one denies is refused (policy_cannot_widen). A project_admin may narrow the
policy of a project and not widen it. What already runs goes on.`,
		Example: "  hostler operation policy set '*' --require-signature --reason 'audit of 2026'\n" +
			"  hostler operation policy set model.artifact.stage --org acme --source s3:models --max-artifact-size 2199023255552\n" +
			"  hostler operation policy set slurm.node.bootstrap --project acme/lab --enabled=false\n" +
			"  hostler operation policy set gpu.host.bootstrap --conditions conditions.json",
		RunE: func(c *cobra.Command, args []string) error {
			if err := set.into(a, c, &put.Policy); err != nil {
				return err
			}
			remote, err := a.connectAt(level)
			if err != nil {
				return err
			}
			p, err := remote.SetOperationPolicy(c.Context(), level, args[0], put)
			if err != nil {
				return err
			}
			if p.Warning != "" {
				a.note("%s", p.Warning)
			}
			return a.showOperationPolicy(p)
		},
	}
	levelFlags(c, &level)
	set.add(c)
	reasonFlag(c, &put.Reason)
	return c
}

func operationPolicyRemoveCommand(a *app) *cobra.Command {
	var level client.OperationLevel
	var reason string
	c := &cobra.Command{
		Use: "remove OPERATION --reason R [--org ORG | --project PROJECT]", Short: "remove the policy of one level", Args: exactly("OPERATION"),
		Long: `Remove what one level says of an operation. The other levels hold as before. The
policy of a project is removed by a tenant_admin or a platform_admin.`,
		Example: "  hostler operation policy remove slurm.node.bootstrap --project acme/lab --reason 'tested' --yes",
		RunE: func(c *cobra.Command, args []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			if err := a.confirm(c, "remove this policy for %s? What it denies is then permitted, unless another level denies it", args[0]); err != nil {
				return err
			}
			remote, err := a.connectAt(level)
			if err != nil {
				return err
			}
			r, err := remote.RemoveOperationPolicy(c.Context(), level, args[0], reason)
			if err != nil {
				return err
			}
			return a.show(r, []string{r.Operation}, func(p *render.Page) { p.Line("removed: " + operationRuleText(*r)) })
		},
	}
	levelFlags(c, &level)
	yesFlag(c)
	reasonFlag(c, &reason)
	return c
}

func operationPolicyExplainCommand(a *app) *cobra.Command {
	var project string
	c := &cobra.Command{
		Use: "explain OPERATION --project PROJECT", Short: "show what all levels permit, and which level decided", Args: exactly("OPERATION"),
		Long: `Show what all levels together permit of an operation in a project: each key with its
value and the policy that decided it, which is the last one, from the widest level,
that set or narrowed it. Where two levels have no source or target kind in common,
nothing is permitted, and both are named. Conditions are listed with their policy: each
of them must be true.`,
		Example: "  hostler operation policy explain model.artifact.stage --project acme/lab",
		RunE: func(c *cobra.Command, args []string) error {
			if project == "" {
				return usage("no project is named (use --project PROJECT)")
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			e, err := remote.EffectiveOperationPolicy(c.Context(), project, args[0])
			if err != nil {
				return err
			}
			rows := [][]string{}
			for _, k := range broker.OperationKeys() {
				if k == "conditions" {
					continue // they have a table of their own
				}
				value, by := operationKeyText(e.Policy, k), ""
				if d, decided := e.DecidedBy[k]; decided {
					by = operationRuleText(d.OperationRule)
					if d.Apart != nil {
						by += ", which has none in common with " + operationRuleText(*d.Apart)
					}
				}
				rows = append(rows, []string{k, value, by})
			}
			return a.show(e, []string{e.Operation}, func(p *render.Page) {
				p.Table([]render.Column{render.Keep("KEY"), render.Keep("VALUE"), render.Keep("DECIDED BY")}, rows)
				conditions := [][]string{}
				for _, c := range e.Conditions {
					conditions = append(conditions, []string{c.Name, operationRuleText(c.OperationRule), c.Message})
				}
				if len(conditions) > 0 {
					p.Title("conditions")
					p.Table([]render.Column{render.Keep("NAME"), render.Keep("OF"), render.Keep("MESSAGE")}, conditions)
				}
				if e.PolicyEngine {
					a.note("the platform also asks a policy engine, which may deny what the policies permit")
				}
			})
		},
	}
	c.Flags().StringVar(&project, "project", "", "the project, `PROJECT`: an id or a name")
	return c
}

func operationRuleText(r api.OperationRule) string {
	return broker.OperationRule{Level: broker.OperationLevel(r.Level), Operation: r.Operation}.String()
}

func (a *app) showOperationPolicy(p *api.OperationPolicy) error {
	return a.show(p, []string{p.Operation}, func(page *render.Page) {
		fields := []string{"policy", operationRuleText(p.OperationRule), "organisation", p.OrganisationID, "project", p.ProjectID}
		for _, k := range broker.OperationKeys() {
			fields = append(fields, k, operationKeyText(p.Policy, k))
		}
		page.Fields(append(fields, "changed", moment(a, p.UpdatedAt))...)
		for _, c := range p.Policy.Conditions {
			page.Title("condition " + c.Name)
			page.Fields("message", c.Message, "expression", c.Expression)
		}
	})
}

// operationKeyText is the value of a key; empty: it is not set.
func operationKeyText(o api.OperationOverlay, key string) string {
	switch v := broker.OperationOverlay(o).Value(key).(type) {
	case nil:
		return ""
	case []string:
		return listed("none", v)
	case []broker.OperationCondition:
		return fmt.Sprint(len(v))
	default:
		return fmt.Sprint(v)
	}
}
