package turnover_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover/turnovertest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestABrokenGPUHasTheNodesDiagnosticsCollected(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, faulty)
	r := w.begin(reset)
	w.failed(r, "scrub_gpu", broker.GPUHardwareFault, "gpu_hw_fault")
	asked := w.book.Tasks(node, "node.diagnostics")
	if len(asked) != 1 || asked[0].IdempotencyKey != r.ID+"/scrub_gpu/1/diagnostics" || asked[0].CorrelationID != r.ID {
		t.Fatalf("asked for %+v", asked)
	}
	if got := string(r.Failure.Details); !strings.Contains(got, `"diagnostics_task":"`+asked[0].ID+`"`) || !strings.Contains(got, `"type":"node.gpu_scrub"`) {
		t.Error("the failure says " + got)
	}
	// Another failed attempt collects again.
	if r = w.act(r.ID, chain.Resume); r.Status != chain.FailedManual {
		t.Fatalf("%s at %s", r.Status, r.Stage)
	}
	if n := len(w.book.Tasks(node, "node.diagnostics")); n != 2 {
		t.Errorf("%d were asked for", n)
	}
}

func TestOtherFailuresCollectNothing(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, func(m *turnovertest.Machine) {
		m.Faulty = map[string]taskcatalog.Code{m.Parts.GPUs[0].UUID: taskcatalog.CodeGPUHolderPresent}
	})
	r := w.begin(reset)
	w.failed(r, "scrub_gpu", broker.GPUHolderPresent, "gpu_holder_present")
	if n := len(w.book.Tasks(node, "node.diagnostics")); n != 0 {
		t.Errorf("%d were asked for", n)
	}
}

// A failed collection neither shortens nor delays the report of a failure.
func TestAFailureStandsThoughNothingCanBeCollected(t *testing.T) {
	w := newWorld(t)
	w.book.Change(node, faulty)
	scrubbed := false
	w.book.Broken = func(method string) error {
		scrubbed = scrubbed || len(w.book.Tasks(node, "node.gpu_scrub")) > 0 && w.book.Tasks(node, "node.gpu_scrub")[0].Status.Ended()
		if scrubbed && method == "Ask" {
			return errors.New("the agent's type list lacks it")
		}
		return nil
	}
	r := w.begin(reset)
	w.failed(r, "scrub_gpu", broker.GPUHardwareFault, "gpu_hw_fault")
	if strings.Contains(string(r.Failure.Details), "diagnostics_task") {
		t.Errorf("%s", r.Failure.Details)
	}
	w.stands(broker.Quarantined, true)
}
