package taskcatalog

import (
	"strings"
	"testing"
)

func TestAHealthReportIsNeverBetterThanItsParts(t *testing.T) {
	r := HealthReport{Verdict: HealthHealthy, GPUs: []GPUHealthOf{
		{Verdict: HealthHealthy},
		{Verdict: HealthHealthy, Reasons: []HealthReason{{Verdict: "fine"}, {Verdict: HealthFailed, Message: "a\x1b[2Jb"}}},
	}}
	r.Bound()
	if r.Verdict != HealthFailed || r.GPUs[1].Verdict != HealthFailed || r.GPUs[0].Verdict != HealthHealthy {
		t.Errorf("%+v", r)
	}
	if got := r.GPUs[1].Reasons; got[0].Verdict != HealthFailed || got[1].Verdict != HealthUnknown || strings.ContainsRune(got[0].Message, 0x1b) {
		t.Errorf("%+v", got)
	}
	for _, bad := range []HealthVerdict{"", "fine", "HEALTHY"} {
		r := HealthReport{Verdict: bad}
		if r.Bound(); r.Verdict != HealthUnknown || r.GPUs == nil || r.Reasons == nil {
			t.Errorf("%q became %+v", bad, r)
		}
	}
	r = HealthReport{Verdict: HealthHealthy, GPUs: make([]GPUHealthOf, MaxHealthGPUs+1)}
	for i := range r.GPUs {
		r.GPUs[i].Verdict = HealthHealthy
	}
	if r.Bound(); len(r.GPUs) != MaxHealthGPUs || r.Verdict != HealthUnknown {
		t.Errorf("%d GPUs, %s: those cut off are not known", len(r.GPUs), r.Verdict)
	}
}

func TestVerdictsAreOrdered(t *testing.T) {
	for _, c := range []struct{ a, b, worse HealthVerdict }{
		{HealthHealthy, HealthDegraded, HealthDegraded},
		{HealthUnknown, HealthDegraded, HealthUnknown},
		{HealthFailed, HealthUnknown, HealthFailed},
		{HealthHealthy, "", ""},
	} {
		if got := c.a.Worse(c.b); got != c.worse {
			t.Errorf("%s or %s: %s", c.a, c.b, got)
		}
	}
}
