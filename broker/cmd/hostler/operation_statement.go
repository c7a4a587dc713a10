package main

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func operationStatementCommand(a *app) *cobra.Command {
	var out, project string
	var attempt int
	c := &cobra.Command{
		Use: "statement OPERATION", Short: "download the signed statement of an operation", Args: exactly("OPERATION"),
		Long: `Download the statement of an attempt of an operation exactly as signed, byte for byte,
for hostler operation verify or another verifier of in-toto statements. The platform
gets the evidence of the nodes. A project, or the platform with --project, gets the
tenant's version: steps, contents and outcomes, without a word about nodes.`,
		Example: "  hostler operation statement op-19f1d8ce200000ooiwaiymzm --out staged.json\n" +
			"  hostler operation statement op-19f1d8ce200000ooiwaiymzm --project acme/lab",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			if project, err = ownProject(c.Context(), remote, project); err != nil {
				return err
			}
			var s *api.OperationStatement
			if project == "" {
				s, err = remote.OperationStatement(c.Context(), args[0], attempt)
			} else {
				s, err = remote.ProjectOperationStatement(c.Context(), project, args[0], attempt)
			}
			if err != nil {
				return err
			}
			return a.writeSigned(out, s.File, s.Digest)
		},
	}
	operationProjectFlag(c, &project)
	c.Flags().StringVar(&out, "out", "", "write to `FILE` instead of stdout")
	c.Flags().IntVar(&attempt, "attempt", 0, "`NUMBER` of the attempt (default: the present one)")
	return c
}

func operationVerifyCommand(a *app) *cobra.Command {
	var trustFile string
	c := &cobra.Command{
		Use: "verify FILE|-", Short: "check the statement of an operation", Args: exactly("FILE|-"),
		Long: `Check the statement of an operation: which definition ran with which inputs, what each
step did, and what the nodes signed. The tenant's version has the steps alone, on the
broker's word, and names the full statement by its digest.

With --trust the check needs no network and no broker; hostler trust show -o json prints
the trust file, which comes over another channel than the statement. Without --trust the
broker supplies the keys.

Exit status: 0 authentic, and the operation succeeded on each node; 1 nothing in the
file can be trusted, the error's code says why; 2 a file cannot be read or written;
3 authentic, but the operation failed or was canceled.`,
		Example: "  hostler operation verify staged.json --trust trust.json",
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.readUpTo(pki.MaxStatement, args[0])
			if err != nil {
				return err
			}
			trust, err := a.trustOf(c.Context(), trustFile)
			if err != nil {
				return err
			}
			r, err := statement.Verify(file, trust, a.now())
			if err != nil {
				return verificationError(err)
			}
			page, id := statementPage, r.Operation.OperationID
			if r.Receipt != nil {
				page, id = operationReceiptPage, r.Receipt.OperationID
			}
			if err := a.show(r, []string{r.Status()}, func(p *render.Page) { page(p, r) }); err != nil {
				return unwritten(err)
			}
			if status := r.Status(); status != statement.Succeeded {
				return broker.Errorf(broker.Refused, "operation_"+status, "the statement is authentic, and operation %s %s", id, ended(status))
			}
			return nil
		},
	}
	c.Flags().StringVar(&trustFile, "trust", "", "read the trusted keys from `FILE`, not from the broker")
	return c
}

// ended is the end of a sentence about an operation with a status.
func ended(status string) string {
	if status == statement.Canceled {
		return "was canceled"
	}
	return status
}

func statementPage(p *render.Page, r *statement.Report) {
	o := r.Operation
	p.Title("Statement of an operation: " + o.Status)
	p.Fields("operation", o.Operation+" ("+o.OperationID+"), attempt "+strconv.Itoa(o.Attempt), "definition", o.DefinitionDigest, "inputs", o.InputsDigest,
		"project", o.ProjectID, "allocation", cmp.Or(o.AllocationID, strings.Join(o.AllocationIDs, ", ")), "nodes", strings.Join(o.NodeIDs, ", "),
		"requested", render.Time(o.RequestedAt), "ended", render.Time(o.FinishedAt))
	rows := [][]string{}
	for _, s := range o.Steps {
		outcome := string(s.Status)
		if s.Earlier {
			outcome += ", by an earlier task"
		}
		rows = append(rows, []string{
			s.NodeID, s.ID, s.StepKind, s.ResolvedProfile, strconv.Itoa(s.AttemptNumber), outcome, string(s.ErrorCode), s.Digest,
		})
	}
	resultTable(p, "Steps, as the nodes signed them", []render.Column{
		render.More("NODE"), render.Keep("STEP"), render.Main("KIND"), render.Aside("PROFILE"), render.Aside("TRY"), render.Keep("STATUS"),
		render.Keep("CODE"), render.More("CONTENT"),
	}, rows)
	rows = [][]string{}
	for _, t := range o.Tasks {
		rows = append(rows, []string{t.ID, t.NodeID, string(t.Outcome), string(t.Code), proofOf(t)})
	}
	resultTable(p, "Tasks", render.Kept("TASK", "NODE", "OUTCOME", "CODE", "EVIDENCE"), rows)
	signaturePage(p, r)
}

func signaturePage(p *render.Page, r *statement.Report) {
	p.Title("Signature")
	p.Fields("file", r.Digest, "issued", render.Time(r.IssuedAt()), "by statement key", r.KeyID, "verified", render.Time(r.VerifiedAt))
}

func operationReceiptPage(p *render.Page, r *statement.Report) {
	o := r.Receipt
	p.Title("Statement of an operation for its tenant: " + o.Status)
	p.Fields("operation", o.Operation+" ("+o.OperationID+"), attempt "+strconv.Itoa(o.Attempt), "definition", o.DefinitionDigest,
		"inputs", o.InputsDigest, "project", o.ProjectID, "allocation", cmp.Or(o.AllocationID, strings.Join(o.AllocationIDs, ", ")),
		"proven", strconv.Itoa(o.Proven)+" of "+strconv.Itoa(o.Nodes)+" nodes", "code", o.Code, "requested", render.Time(o.RequestedAt),
		"ended", render.Time(o.FinishedAt), "full statement", o.StatementDigest)
	rows := [][]string{}
	for _, s := range o.Steps {
		outcome := string(s.Status)
		if s.Earlier {
			outcome += ", by an earlier task"
		}
		rows = append(rows, []string{
			strconv.Itoa(s.Place), s.ID, s.StepKind, strconv.Itoa(s.AttemptNumber), outcome, s.ErrorCode, s.Digest,
		})
	}
	resultTable(p, "Steps", []render.Column{
		render.Keep("NODE"), render.Keep("STEP"), render.Main("KIND"), render.Aside("TRY"), render.Keep("STATUS"), render.Keep("CODE"),
		render.More("CONTENT"),
	}, rows)
	if o.StepsOmitted > 0 {
		p.Line(strconv.Itoa(o.StepsOmitted) + " more attempts of steps are not listed.")
	}
	signaturePage(p, r)
}

func proofOf(t statement.Task) string {
	switch {
	case t.Unproven != "":
		return "none that holds (" + string(t.Unproven) + ")"
	case t.Proof == nil:
		return "none: the node reported nothing"
	case t.Proof.ResultOmitted:
		return "signed by the node, without its steps: they were too long"
	}
	if t.Outcome == taskcatalog.OutcomeSucceeded {
		return "signed by the node"
	}
	return "signed by the node, of a " + string(t.Outcome) + " task"
}
