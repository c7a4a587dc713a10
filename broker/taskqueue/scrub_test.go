package taskqueue_test

import (
	"cmp"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
)

var expected = []taskcatalog.BaselineGPU{
	{Vendor: "nvidia", UUID: "GPU-1", Serial: "s1", Settings: taskcatalog.GPUSettings{ComputeMode: "default"}},
	{Vendor: "nvidia", UUID: "GPU-2", Serial: "s2"},
}

// gpuNode is an active node whose baseline has the expected GPUs.
func (w *world) gpuNode() node {
	w.t.Helper()
	n := w.node("gpu", map[string]string{"gpu.vendor": "nvidia"})
	w.move(n, broker.Active, broker.OwnerOnboarding)
	raw, err := taskcatalog.Encode(taskcatalog.Baseline{TakenAt: w.db.Now(), GPUs: expected})
	w.ok(err)
	w.ok(w.db.SaveBaseline(ctx, operator, n.Peer.NodeID, pki.Digest(raw), raw, "test"))
	return n
}

func (w *world) gpuPolicy(policy string) {
	w.t.Helper()
	w.ok(w.db.SetCleanPolicy(ctx, operator, "lab", json.RawMessage(`{"gpu":`+policy+`}`), "test"))
}

// cleanScrub is the result of a successful scrub of the expected GPUs.
func cleanScrub(change ...func(*taskcatalog.GPUScrubResult)) *taskcatalog.GPUScrubResult {
	zero, all := uint64(0), uint64(80<<30)
	well := taskcatalog.GPUAssurance{Overwrite: taskcatalog.OverwriteVerified, Reset: taskcatalog.ResetUnsupported}
	r := &taskcatalog.GPUScrubResult{Verdict: "clean", Assurance: well, Steps: []taskcatalog.StepRecord{}}
	for _, g := range expected {
		r.GPUs = append(r.GPUs, taskcatalog.GPUScrubbed{
			Vendor: g.Vendor, UUID: g.UUID, Verdict: "clean", Assurance: well, MismatchedWords: &zero, RemainingWords: &zero, ProbedNonZeroWords: &zero,
			CoveredBytes: &all, ReadBackBytes: &all, ProbedBytes: &all,
		})
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// scrubbed enqueues a scrub, answers it, and returns the queue's verdict.
func (w *world) scrubbed(n node, outcome taskcatalog.Outcome, res *taskcatalog.GPUScrubResult, report taskcatalog.Report) (broker.Task, error) {
	w.t.Helper()
	k := w.enqueue(n, "node.gpu_scrub", `{}`)
	d := w.fetch(n)[0]
	result := ""
	if res != nil {
		raw, err := taskcatalog.Encode(res)
		w.ok(err)
		result = string(raw)
	}
	ev := w.evidence(n, d, outcome, result)
	ev.Report = report
	_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, ev, result))
	got := w.task(k.ID)
	if err != nil { // the lane must be free for the next
		_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeFailed, ""), ""))
		w.ok(err)
	}
	return got, err
}

func TestAScrubIsNeverBetterThanItsWorstGPU(t *testing.T) {
	const ok, failed, canceled = taskcatalog.OutcomeSucceeded, taskcatalog.OutcomeFailed, taskcatalog.OutcomeCanceled
	one := uint64(1)
	gpu := func(change func(*taskcatalog.GPUScrubbed)) *taskcatalog.GPUScrubResult {
		return cleanScrub(func(r *taskcatalog.GPUScrubResult) { change(&r.GPUs[1]) })
	}
	clean, none := taskcatalog.Report{Verdict: "clean"}, taskcatalog.Report{}
	table := map[string]struct {
		outcome taskcatalog.Outcome
		result  *taskcatalog.GPUScrubResult
		report  taskcatalog.Report
		policy  string
		want    taskcatalog.Verdict
	}{
		"all clean":                    {ok, cleanScrub(), clean, "", "clean"},
		"one is not":                   {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.Verdict = "not_clean" }), clean, "", "not_clean"},
		"one is inconclusive":          {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.Verdict = "inconclusive" }), clean, "", "inconclusive"},
		"one has a code":               {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.Code = "gpu_residue" }), clean, "", "inconclusive"},
		"words differ":                 {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.MismatchedWords = &one }), clean, "", "not_clean"},
		"words are left":               {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.RemainingWords = &one }), clean, "", "not_clean"},
		"the host read wrong words":    {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.ReadBackMismatches = &one }), clean, "", "not_clean"},
		"the next tenant sees words":   {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.ProbedNonZeroWords = &one }), clean, "", "not_clean"},
		"a finding beside it":          {ok, cleanScrub(), taskcatalog.Report{Verdict: "clean", Findings: []taskcatalog.Finding{{Check: "gpu"}}}, "", "inconclusive"},
		"findings that are hidden":     {ok, cleanScrub(), taskcatalog.Report{Verdict: "clean", FindingsOmitted: 1}, "", "inconclusive"},
		"a GPU that is left out":       {ok, cleanScrub(func(r *taskcatalog.GPUScrubResult) { r.GPUs = r.GPUs[:1] }), clean, "", "inconclusive"},
		"no GPU at all":                {ok, cleanScrub(func(r *taskcatalog.GPUScrubResult) { r.GPUs = []taskcatalog.GPUScrubbed{} }), clean, "", "inconclusive"},
		"another GPU in its place":     {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.UUID = "GPU-9" }), clean, "", "not_clean"},
		"instances of it in its place": {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.UUID, g.Parent = "MIG-1", "GPU-2" }), clean, "", "clean"},
		"not verified":                 {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.Assurance.Overwrite = "unverified" }), clean, "", "inconclusive"},
		"verified, and no figures":     {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.CoveredBytes = nil }), clean, "", "inconclusive"},
		"verified, and never probed":   {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.ProbedBytes = new(uint64) }), clean, "", "inconclusive"},
		"not overwritten":              {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.Assurance.Overwrite = "none" }), clean, "", "inconclusive"},
		"not verified, and that does":  {ok, gpu(func(g *taskcatalog.GPUScrubbed) { g.Assurance.Overwrite = "unverified" }), clean, `{"allow_unverified":true}`, "clean"},
		"no reset, and one is wanted":  {ok, cleanScrub(), clean, `{"require_reset":true}`, "inconclusive"},
		"it failed":                    {failed, cleanScrub(), clean, "", "inconclusive"},
		"it was canceled":              {canceled, cleanScrub(), clean, "", "inconclusive"},
		"it failed, and says nothing":  {failed, nil, none, "", ""},
		"it failed without a result":   {failed, nil, clean, "", "inconclusive"},
		"it failed, and found much":    {failed, gpu(func(g *taskcatalog.GPUScrubbed) { g.Verdict = "not_clean" }), clean, "", "not_clean"},
		"worse than its GPUs": {
			ok, cleanScrub(func(r *taskcatalog.GPUScrubResult) { r.Verdict = "not_clean" }),
			taskcatalog.Report{Verdict: "not_clean"},
			"", "not_clean",
		},
	}
	each(t, func(w *world) {
		n := w.gpuNode()
		for name, c := range table {
			w.run(name, func(w *world) {
				w.gpuPolicy(cmp.Or(c.policy, `{}`))
				got, err := w.scrubbed(n, c.outcome, c.result, c.report)
				w.ok(err)
				if got.Verdict != c.want {
					w.t.Errorf("verdict %q, want %q", got.Verdict, c.want)
				}
			})
		}
	})
}

// A baseline taken without an answering library expects no GPU.
func TestAScrubOfNoGPUProvesNothing(t *testing.T) {
	each(t, func(w *world) {
		n := w.gpuNode()
		w.ok(w.db.SaveBaseline(ctx, operator, n.Peer.NodeID, "sha256:b", baseline(w), "test"))
		got, err := w.scrubbed(n, taskcatalog.OutcomeSucceeded, cleanScrub(func(r *taskcatalog.GPUScrubResult) { r.GPUs = []taskcatalog.GPUScrubbed{} }), taskcatalog.Report{Verdict: "clean"})
		w.ok(err)
		if got.Verdict != taskcatalog.VerdictInconclusive {
			w.t.Errorf("verdict %q", got.Verdict)
		}
	})
}

// Each row is a false report. None ends the task.
func TestAScrubThatCannotBeBelievedIsRefused(t *testing.T) {
	clean := taskcatalog.Report{Verdict: "clean"}
	table := map[string]struct {
		result *taskcatalog.GPUScrubResult
		report taskcatalog.Report
		code   string
	}{
		"no verdict":                      {cleanScrub(), taskcatalog.Report{}, "evidence_verdict"},
		"a verdict of its own":            {cleanScrub(func(r *taskcatalog.GPUScrubResult) { r.Verdict = "spotless" }), taskcatalog.Report{Verdict: "spotless"}, "evidence_verdict"},
		"a better verdict than signed":    {cleanScrub(), taskcatalog.Report{Verdict: "not_clean"}, "evidence_verdict"},
		"a worse verdict than signed":     {cleanScrub(func(r *taskcatalog.GPUScrubResult) { r.Verdict = "not_clean" }), clean, "evidence_verdict"},
		"a GPU with a verdict of its own": {cleanScrub(func(r *taskcatalog.GPUScrubResult) { r.GPUs[0].Verdict = "fine" }), clean, "evidence_verdict"},
		"a GPU without a verdict":         {cleanScrub(func(r *taskcatalog.GPUScrubResult) { r.GPUs[0].Verdict = "" }), clean, "evidence_verdict"},
		"no result":                       {nil, clean, "bad_result"},
	}
	each(t, func(w *world) {
		n := w.gpuNode()
		for name, c := range table {
			w.run(name, func(w *world) {
				got, err := w.scrubbed(n, taskcatalog.OutcomeSucceeded, c.result, c.report)
				w.refused(err, c.code)
				if got.Status != broker.TaskDispatched || got.Verdict != "" {
					w.t.Errorf("the task is %s %s", got.Status, got.Verdict)
				}
			})
		}
	})
}

func TestAScrubCarriesTheGPUsOfTheBaselineAndTheSitesPolicy(t *testing.T) {
	each(t, func(w *world) {
		bare := w.node("bare", map[string]string{"gpu.vendor": "nvidia"})
		w.move(bare, broker.Active, broker.OwnerOnboarding)
		_, _, err := w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: bare.Peer.NodeID, Type: "node.gpu_scrub"})
		w.refused(err, "baseline_missing")

		n := w.gpuNode()
		for name, params := range map[string]string{"expected": `{"expected":[]}`, "policy": `{"policy":{"allow_unverified":true}}`} {
			_, _, err := w.queue.Enqueue(ctx, operator, taskqueue.Request{NodeID: n.Peer.NodeID, Type: "node.gpu_scrub", Params: json.RawMessage(params)})
			if broker.AsError(err).Code != "broker_filled_params" {
				w.t.Errorf("%s of an operator: %v", name, err)
			}
		}
		w.ok(w.db.SetCleanPolicy(ctx, operator, "elsewhere", json.RawMessage(`{"gpu":{"allow_unverified":true}}`), "test"))
		sent := func() (p taskcatalog.GPUScrubParams) {
			w.t.Helper()
			k := w.enqueue(n, "node.gpu_scrub", `{"reset":"never"}`)
			d := w.fetch(n)[0]
			w.ok(json.Unmarshal(w.opened(d).Params, &p))
			if string(k.Params) != `{"reset":"never"}` {
				w.t.Errorf("the operator's params are kept as %s", k.Params)
			}
			_, err := w.queue.Result(ctx, n.Peer, k.ID, w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeFailed, ""), ""))
			w.ok(err)
			return p
		}
		if p := sent(); p.Policy != nil || p.Reset != "never" || !reflect.DeepEqual(p.Expected, expected) {
			w.t.Errorf("without a policy: %+v", p)
		}
		w.gpuPolicy(`{"require_reset":true,"stop_services":["a.service"]}`)
		if p := sent(); p.Policy == nil || !p.Policy.RequireReset || p.Policy.AllowUnverified || len(p.Policy.StopServices) != 1 {
			w.t.Errorf("with a policy: %+v", p.Policy)
		}
	})
}
