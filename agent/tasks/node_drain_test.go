package tasks

import (
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestADrainedNodeLetsNobodyInUntilItIsResumed(t *testing.T) {
	h, _ := hosttest.Box(t)
	for _, c := range []struct {
		resume  bool
		drained bool
	}{{false, true}, {true, false}} {
		result, _, err := drain(t.Context(), &host.Run{Params: &taskcatalog.DrainParams{Resume: c.resume}, Host: h})
		if err != nil || result.(*taskcatalog.DrainResult).Drained != c.drained || h.Marks.Drained() != c.drained {
			t.Errorf("resume %v: %+v, %v", c.resume, result, err)
		}
	}
}
