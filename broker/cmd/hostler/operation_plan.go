package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func operationPlanCommand(a *app) *cobra.Command {
	var o operationOrder
	c := &cobra.Command{
		Use: "plan OPERATION --allocation ID | --group SELECTOR | --node NODE | --nodes SELECTOR", Short: "show the plan that an operation would have", Args: exactly("OPERATION"),
		Long: `Show the plan that a node would get: the steps with their values, the deadline and the
sources within the policy, and for each artifact who signed it, or what says that no
signature is required. Target, inputs and policy are checked as for hostler operation
run, and nothing begins. With --nodes it shows the nodes with their batches, and those
that are passed over, with the reason.`,
		Example: "  hostler operation plan gpu.host.bootstrap@v1 --node gpu-07 --inputs packages.json\n" +
			"  hostler operation plan gpu.host.bootstrap@v1 --nodes site=dc1,rack=r12 --canary 1 --inputs packages.json",
		RunE: func(c *cobra.Command, args []string) error {
			inputs, err := o.read(a)
			if err != nil {
				return err
			}
			remote, err := a.connect()
			if err != nil {
				return err
			}
			var p *api.OperationPlan
			if o.ofPlatform() {
				p, err = remote.PlanNodeOperation(c.Context(), o.onNodes(args[0], inputs))
			} else {
				if o.project, err = ownProject(c.Context(), remote, o.project); err != nil {
					return err
				}
				if o.project == "" {
					return usage("no project is named (use --project PROJECT, or --node NODE)")
				}
				p, err = remote.PlanOperation(c.Context(), o.project, o.onAllocation(args[0], inputs))
			}
			if err != nil {
				return err
			}
			return a.showOperationPlan(args[0], p)
		},
	}
	o.flags(c)
	return c
}

func (a *app) showOperationPlan(operation string, p *api.OperationPlan) error {
	var plan taskcatalog.OperationPlan
	if err := json.Unmarshal(p.Plan, &plan); err != nil {
		return err
	}
	if p.Warning != "" {
		a.note("%s", p.Warning)
	}
	ids, rows := []string{}, [][]string{}
	for _, s := range plan.Steps {
		ids = append(ids, s.ID)
		rows = append(rows, []string{s.ID, s.Kind, fmt.Sprint(s.Attempts), (time.Duration(s.TimeoutSeconds) * time.Second).String()})
	}
	return a.show(p, ids, func(page *render.Page) {
		page.Fields("operation", operation, "definition digest", plan.DefinitionDigest, "inputs digest", plan.InputsDigest,
			"deadline", (time.Duration(plan.DeadlineSeconds) * time.Second).String())
		page.Table([]render.Column{render.ID("STEP"), render.Main("KIND"), render.Keep("ATTEMPTS"), render.Keep("TIMEOUT")}, rows)
		showPlannedArtifacts(page, p.Artifacts)
		showPlannedNodes(page, p)
	})
}

// showPlannedNodes shows the nodes of a group of the platform, and those that are passed over.
func showPlannedNodes(page *render.Page, p *api.OperationPlan) {
	var rows [][]string
	for _, n := range p.Nodes {
		rows = append(rows, []string{n.ID, n.Hostname, strconv.Itoa(n.Batch), "", ""})
	}
	for _, n := range p.PassedOver {
		rows = append(rows, []string{n.ID, n.Hostname, "passed over", n.Code, n.Because})
	}
	if len(rows) > 0 {
		page.Table([]render.Column{
			render.ID("NODE"), render.Main("HOSTNAME"), render.Keep("BATCH"), render.Keep("CODE"), render.Keep("BECAUSE"),
		}, rows)
	}
}

// showPlannedArtifacts shows what a plan brings to a node: a row for each signature, and one for what has none.
func showPlannedArtifacts(page *render.Page, all []api.PlannedArtifact) {
	var rows [][]string
	for _, a := range all {
		if len(a.Signatures) == 0 {
			signed := "not required"
			if a.SignatureRequired {
				signed = "required, none verified"
			}
			rows = append(rows, []string{a.Source, strings.Join(a.Steps, ","), a.Digest, signed, a.Because})
		}
		for _, s := range a.Signatures {
			rows = append(rows, []string{a.Source, strings.Join(a.Steps, ","), a.Digest, signedBy(s), a.Because})
		}
	}
	if len(rows) > 0 {
		page.Table([]render.Column{
			render.ID("ARTIFACT"), render.More("STEPS"), render.More("DIGEST"), render.Keep("SIGNATURE"), render.Keep("BECAUSE"),
		}, rows)
	}
}

func signedBy(s api.PlannedSignature) string {
	by := "key " + s.KeyDigest
	switch {
	case s.Subject != "":
		by = "identity " + s.Subject + " of " + s.Issuer
	case s.KeyDigest == "":
		by = "a key"
	}
	return by + " (signer " + s.Signer + " of " + s.SignerSource + ")"
}
