package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/broker/operation/statement"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

func operationStatementCommand(a *app) *cobra.Command {
	var out string
	var attempt int
	c := &cobra.Command{
		Use: "statement OPERATION", Short: "download the signed statement of an operation", Args: exactly("OPERATION"),
		Long: `Download the statement of an attempt of an operation exactly as signed, byte for byte,
for hostler operation verify or another verifier of in-toto statements. It names the
nodes: give a tenant what it may see of them.`,
		Example: "  hostler operation statement op-19f1d8ce200000ooiwaiymzm --out staged.json",
		RunE: func(c *cobra.Command, args []string) error {
			remote, err := a.connect()
			if err != nil {
				return err
			}
			s, err := remote.OperationStatement(c.Context(), args[0], attempt)
			if err != nil {
				return err
			}
			return a.writeSigned(out, s.File, s.Digest)
		},
	}
	c.Flags().StringVar(&out, "out", "", "write to `FILE` instead of stdout")
	c.Flags().IntVar(&attempt, "attempt", 0, "`NUMBER` of the attempt (default: the present one)")
	return c
}

func operationVerifyCommand(a *app) *cobra.Command {
	var trustFile string
	c := &cobra.Command{
		Use: "verify FILE|-", Short: "check the statement of an operation", Args: exactly("FILE|-"),
		Long: `Check the statement of an operation: which definition ran with which inputs, what each
step did, and what the nodes signed. With --trust the check needs no network and no
broker; hostler trust show -o json prints the trust file, which comes over another
channel than the statement. Without --trust the broker supplies the keys.

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
			if err := a.show(r, []string{r.Operation.Status}, func(p *render.Page) { statementPage(p, r) }); err != nil {
				return unwritten(err)
			}
			if o := r.Operation; o.Status != statement.Succeeded {
				return broker.Errorf(broker.Refused, "operation_"+o.Status, "the statement is authentic, and operation %s %s", o.OperationID, ended(o.Status))
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
		"project", o.ProjectID, "allocation", o.AllocationID, "nodes", strings.Join(o.NodeIDs, ", "),
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
	p.Title("Signature")
	p.Fields("file", r.Digest, "issued", render.Time(o.IssuedAt), "by statement key", r.KeyID, "verified", render.Time(r.VerifiedAt))
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
