package adminapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/store"
)

func TestRunsThatNeedAPersonAreGroupedByWhatHelps(t *testing.T) {
	first := time.Unix(1_800_000_000, 0)
	var stopped []store.StoppedRun
	for i := range 5 {
		stopped = append(stopped, store.StoppedRun{ID: fmt.Sprintf("r-%d", i), Kind: "node.onboarding", Class: "hardware_mismatch", NextAction: "compare", UpdatedAt: first.Add(time.Duration(i) * time.Minute)})
	}
	stopped = append([]store.StoppedRun{{ID: "r-9", Kind: "node.onboarding", Class: "upstream_transient", NextAction: "look", UpdatedAt: first}}, stopped...)
	got := groupStopped(stopped)
	if len(got) != 2 || got[0].FailureClass != "hardware_mismatch" || got[0].Runs != 5 || fmt.Sprint(got[0].Examples) != "[r-0 r-1 r-2]" || !got[0].Since.Equal(first) || got[1].Runs != 1 {
		t.Errorf("they are grouped as %+v", got)
	}
}

func TestNodesBehindAreCountedByWhatTheyLack(t *testing.T) {
	node := func(name, agent, wanted, has string) broker.Node {
		return broker.Node{ID: name, Hostname: name, Epoch: 1, Status: broker.Active, AgentVersion: agent, ResolverWanted: wanted, ResolverDigest: has}
	}
	gone, never := node("gone", "0.1.0", "", ""), node("never", "", "", "")
	gone.Status, never.Epoch = broker.Removing, 0
	got := groupOutdated([]broker.Node{
		node("a", "0.1.0", "", ""), node("b", "0.1.0", "sha256:2", "sha256:1"), node("c", "0.2.0", "sha256:2", "sha256:2"), node("d", "0.2.0", "sha256:2", ""), gone, never,
	}, map[string]string{"a": "0.2.0", "b": "0.2.0", "gone": "0.2.0", "never": "0.2.0"}, []store.ResolverSet{{Digest: "sha256:1", Version: "v1"}, {Digest: "sha256:2", Version: "v2"}})
	want := []api.NodesBehind{
		{What: "agent", Has: "0.1.0", Wants: "0.2.0", Nodes: 2, Examples: []string{"a", "b"}},
		{What: "resolver profiles", Has: "v1", Wants: "v2", Nodes: 1, Examples: []string{"b"}},
		{What: "resolver profiles", Has: "none", Wants: "v2", Nodes: 1, Examples: []string{"d"}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("behind are %+v", got)
	}
}

func TestWhatDoesNotFitTheScreenIsCounted(t *testing.T) {
	out := &api.Status{Omitted: map[string]int64{}}
	if got := truncate(out, "short", make([]int, onScreen)); len(got) != onScreen || len(out.Omitted) != 0 {
		t.Errorf("%d are shown, and %v omitted", len(got), out.Omitted)
	}
	if got := truncate(out, "long", make([]int, onScreen+7)); len(got) != onScreen || out.Omitted["long"] != 7 {
		t.Errorf("%d are shown, and %v omitted", len(got), out.Omitted)
	}
}
