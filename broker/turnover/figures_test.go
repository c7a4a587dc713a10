package turnover_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/turnover"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// outage is an outage that began so long after noon and lasted so long; 0: not ended.
func outage(site string, gpus int64, began, lasted time.Duration) broker.Outage {
	o := broker.Outage{NodeID: "n", Site: site, GPUs: gpus, BeganAt: noon.Add(began)}
	if lasted > 0 {
		o.EndedAt = o.BeganAt.Add(lasted)
	}
	return o
}

// The loss is counted within the requested window; the duration of a turnover counts as a whole.
func TestASiteLosesItsGPUsForAsLongAsTheirNodeIsOut(t *testing.T) {
	all := []broker.Outage{
		outage("dc1", 8, -2*time.Hour, 3*time.Hour), // one of its hours is in the window
		outage("dc1", 8, time.Hour, 30*time.Minute),
		outage("dc1", 4, 3*time.Hour, 0), // an hour by now
		outage("dc2", 0, 0, time.Hour),
	}
	got := turnover.BySite(all, noon, noon.Add(4*time.Hour))
	want := []turnover.SiteFigures{
		{Site: "dc1", Turnovers: 3, Open: 1, NodeLost: 150 * time.Minute, GPULost: 16 * time.Hour, Median: time.Hour, Most: 3 * time.Hour},
		{Site: "dc2", Turnovers: 1, NodeLost: time.Hour, Median: time.Hour, Most: time.Hour},
	}
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("%+v, want %+v", got, want)
		}
	}
	if got := turnover.BySite(nil, noon, noon); len(got) != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestTheSlowestAreATenth(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 9: 1, 10: 1, 11: 2, 100: 10} {
		var all []broker.Outage
		for i := range n {
			all = append(all, outage("dc1", 8, 0, time.Duration(i+1)*time.Minute))
		}
		got := turnover.Slowest(all, noon.Add(3*time.Hour))
		if len(got) != want {
			t.Errorf("of %d: %d, want %d", n, len(got), want)
		}
		for i, o := range got {
			if o.EndedAt.Sub(o.BeganAt) != time.Duration(n-i)*time.Minute {
				t.Errorf("of %d: %v is not the slowest but %d", n, o, i)
			}
		}
	}
}

func TestTheCauseIsTheStageThatTookMostWithWhatFailedThere(t *testing.T) {
	at := func(minute int, stage string, status chain.EventStatus, class string) chain.Event {
		e := chain.Event{At: noon.Add(time.Duration(minute) * time.Minute), Stage: stage, Status: status}
		if class != "" {
			e.Details, _ = json.Marshal(map[string]string{"failure_class": class})
		}
		return e
	}
	for _, c := range []struct {
		name   string
		open   bool
		events []chain.Event
		want   turnover.Cause
	}{
		{
			"it worked", false,
			[]chain.Event{at(0, "drain_node", chain.Started, ""), at(1, "drain_node", chain.Succeeded, ""), at(1, "scrub_gpu", chain.Started, ""), at(50, "scrub_gpu", chain.Succeeded, ""), at(50, "enable_node", chain.Started, "")},
			turnover.Cause{Stage: "scrub_gpu", Took: 49 * time.Minute},
		},
		{
			"it failed and waited for a person", false,
			[]chain.Event{at(0, "drain_node", chain.Started, ""), at(10, "drain_node", chain.Succeeded, ""), at(10, "scrub_gpu", chain.Started, ""), at(11, "scrub_gpu", chain.Failed, "gpu_hw_fault")},
			turnover.Cause{Stage: "scrub_gpu", Class: "gpu_hw_fault", Took: 50 * time.Minute},
		},
		{
			"it goes on", true,
			[]chain.Event{at(0, "drain_node", chain.Started, ""), at(1, "drain_node", chain.Failed, "agent_silent")},
			turnover.Cause{Stage: "drain_node", Class: "agent_silent", Took: 120 * time.Minute},
		},
		{
			"it was cancelled, and nobody began another", false,
			[]chain.Event{at(0, "disable_node", chain.Started, ""), at(5, "disable_node", chain.Succeeded, ""), at(6, "disable_node", chain.Compensated, "")},
			turnover.Cause{Stage: turnover.NoRun, Took: 54 * time.Minute},
		},
		{"no run ever", false, nil, turnover.Cause{Stage: turnover.NoRun, Took: time.Hour}},
		{"details of another version", false, []chain.Event{{At: noon, Stage: "scrub_gpu", Status: chain.Failed, Details: []byte(`[]`)}}, turnover.Cause{Stage: "scrub_gpu", Took: time.Hour}},
		{"an event of before", false, []chain.Event{at(-5, "scrub_gpu", chain.Started, "")}, turnover.Cause{Stage: "scrub_gpu", Took: time.Hour}},
	} {
		o := outage("dc1", 8, 0, time.Hour)
		if c.open {
			o.EndedAt = time.Time{}
		}
		if got := turnover.CauseOf(o, c.events, noon.Add(2*time.Hour)); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
