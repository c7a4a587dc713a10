package taskqueue

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// scrubVerdict is the verdict of a GPU scrub: the node's verdict, or the worst verdict of its
// GPUs if worse. Only a successful scrub can be clean.
func scrubVerdict(k broker.Task, r wire.ResultRequest, report taskcatalog.Report) (taskcatalog.Verdict, error) {
	said := report.Verdict
	if said == "" {
		if r.Outcome == taskcatalog.OutcomeSucceeded {
			return "", untrustedEvidence(k, "evidence_verdict", "the scrub succeeded without a verdict")
		}
		return "", nil
	}
	if !said.Valid() {
		return "", untrustedEvidence(k, "evidence_verdict", "the result has an unknown verdict")
	}
	worst := said
	if len(r.Result) > 0 && string(r.Result) != "null" {
		var sum taskcatalog.GPUScrubResult
		if err := taskcatalog.DecodeStrict(r.Result, &sum); err != nil {
			return "", err
		}
		if sum.Verdict != said {
			return "", untrustedEvidence(k, "evidence_verdict", "the evidence's verdict differs from the result's verdict")
		}
		for _, g := range sum.GPUs {
			if !g.Verdict.Valid() {
				return "", untrustedEvidence(k, "evidence_verdict", "a GPU of the result has an unknown verdict")
			}
			worst = taskcatalog.Lesser(taskcatalog.Lesser(worst, g.Verdict), g.Figures())
		}
	}
	if r.Outcome != taskcatalog.OutcomeSucceeded || len(report.Findings)+report.FindingsOmitted > 0 {
		worst = taskcatalog.Lesser(worst, taskcatalog.VerdictInconclusive)
	}
	return worst, nil
}

// scrubbedAll judges a clean scrub by the baseline and the policy in force: the scrub stays clean
// only if it names exactly the expected GPUs, and each GPU was overwritten, and reset, as the site
// requires. A scrub of no GPU proves nothing.
func (q *Queue) scrubbedAll(ctx context.Context, k broker.Task, r *taskcatalog.GPUScrubResult) (taskcatalog.Verdict, error) {
	n, err := q.c.DB.Node(ctx, k.NodeID)
	if err != nil {
		return "", err
	}
	var asked taskcatalog.GPUScrubParams
	if err := q.gpus(ctx, n, &asked); err != nil {
		return "", err
	}
	policy := taskcatalog.GPUScrubPolicy{}
	if asked.Policy != nil {
		policy = *asked.Policy
	}
	verdict := taskcatalog.VerdictClean
	if len(r.GPUs) == 0 {
		verdict = taskcatalog.VerdictInconclusive
	}
	for _, want := range asked.Expected {
		if !slices.ContainsFunc(r.GPUs, func(g taskcatalog.GPUScrubbed) bool { return g.UUID == want.UUID || g.Parent == want.UUID }) {
			verdict = taskcatalog.Lesser(verdict, taskcatalog.VerdictInconclusive)
		}
	}
	for _, g := range r.GPUs {
		if !slices.ContainsFunc(asked.Expected, func(want taskcatalog.BaselineGPU) bool {
			return g.UUID == want.UUID ||
				g.Parent == want.UUID
		}) {
			verdict = taskcatalog.Lesser(verdict, taskcatalog.VerdictNotClean)
		}
		if g.Assurance.Overwrite != taskcatalog.OverwriteVerified && !policy.AllowUnverified ||
			g.Assurance.Reset != taskcatalog.ResetProven && policy.RequireReset {
			verdict = taskcatalog.Lesser(verdict, taskcatalog.VerdictInconclusive)
		}
	}
	return verdict, nil
}
