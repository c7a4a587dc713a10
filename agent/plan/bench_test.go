package plan

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/ledger"
	"github.com/hostler/hostler/agent/steps"
)

// What the runner itself takes for one step, on a ledger on the disk: both writes of its row. The
// operation has 64 steps.
func BenchmarkStep(b *testing.B) {
	l, err := ledger.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	var all []string
	for i := range 64 {
		all = append(all, fmt.Sprintf(`{"id":"s%d","kind":"gpu.runtime.check"}`, i))
	}
	p := aPlan(b, "["+strings.Join(all, ",")+"]")
	done := 0
	for n := 0; b.Loop(); n++ {
		p.OperationID = fmt.Sprintf("op-%d", n)
		o := &Operation{
			Plan: p, TaskID: "t-1", Host: &host.Host{Now: time.Now, Log: zap.NewNop()}, Journal: l, Pause: host.Wait,
			Kinds: func(string) (steps.Kind, bool) {
				return steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) { done++; return steps.Proof{}, nil }}, true
			},
		}
		if _, _, err := o.Do(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(done), "ms/step")
}
