package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
)

func nop(context.Context, *chain.Run[chaintest.ScriptState]) error { return nil }

func TestAListThatCannotBeRunIsRefused(t *testing.T) {
	type stages = []chain.Stage[chaintest.ScriptState]
	for _, test := range []struct {
		name   string
		stages stages
		want   string
	}{
		{"empty", nil, "needs a kind and stages"},
		{"nameless", stages{{Do: nop}}, "not a valid stage name"},
		{"a name with a slash", stages{{Name: "a/undo", Do: nop}}, "not a valid stage name"},
		{"two of a name", stages{{Name: "a", Do: nop}, {Name: "a", Do: nop}}, "two stages have the name a"},
		{"two of a name, one in a rescue", stages{{Name: "a", Do: nop, Rescue: stages{{Name: "a", Do: nop, Then: "a"}}}}, "two stages have the name a"},
		{"nothing to do", stages{{Name: "a"}}, "has no Do"},
		{"a rescue that leads nowhere", stages{{Name: "a", Do: nop, Rescue: stages{{Name: "x", Do: nop}}}}, "Then belongs to the last"},
		{"Then too early", stages{{Name: "a", Do: nop, Rescue: stages{{Name: "x", Do: nop, Then: "a"}, {Name: "y", Do: nop, Then: "a"}}}}, "Then belongs to the last"},
		{"Then on the main line", stages{{Name: "a", Do: nop, Then: "a"}}, "Then belongs to the last"},
		{"Then to what is not there", stages{{Name: "a", Do: nop, Rescue: stages{{Name: "x", Do: nop, Then: "z"}}}}, "not its own stage or one before"},
		{"Then forwards", stages{{Name: "a", Do: nop, Rescue: stages{{Name: "x", Do: nop, Then: "b"}}}, {Name: "b", Do: nop}}, "not its own stage or one before"},
		{"a rescue of a rescue", stages{{Name: "a", Do: nop, Rescue: stages{{Name: "x", Do: nop, Then: "a", Rescue: stages{{Name: "y", Do: nop, Then: "a"}}}}}}, "has a rescue"},
		{"a pivot in a rescue", stages{{Name: "a", Do: nop, Rescue: stages{{Name: "x", Do: nop, Then: "a", Pivot: true}}}}, "is a pivot"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := chain.Chain[chaintest.ScriptState]{Kind: chaintest.ScriptKind, Stages: test.stages}
			_, err := chain.New(chaintest.NewMemory(time.Now), nil, chain.Options{}, c)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %v, want %q", err, test.want)
			}
			if _, err := chain.Plan(c, chaintest.ScriptState{}); err == nil {
				t.Error("but it can be planned")
			}
		})
	}
}

func TestAnEngineRefusesWhatItCannotRun(t *testing.T) {
	script := &chaintest.Script{List: "a"}
	store := chaintest.NewMemory(time.Now)
	if _, err := chain.New(store, nil, chain.Options{}, script.Chain(), script.Chain()); err == nil {
		t.Error("two chains of one kind")
	}
	if _, err := chain.New(store, nil, chain.Options{Lease: 10 * time.Second}, script.Chain()); err == nil {
		t.Error("a lease that leaves no time")
	}
}

// A plan calls no stage and tells a person everything needed beforehand.
func TestAPlanIsTheListWithWhatEachStageTouches(t *testing.T) {
	type state = chaintest.ScriptState
	about := func(touches, destructive string, expected time.Duration) func(state) chain.About {
		return func(s state) chain.About {
			return chain.About{Touches: touches + " " + s.Trail[0], Destructive: destructive, Expected: expected}
		}
	}
	c := chain.Chain[state]{Kind: chaintest.ScriptKind, Stages: []chain.Stage[state]{
		{Name: "load_site_config", Do: nop},
		{Name: "deploy_via_maas", Do: nop, About: about("machine", "the boot disk is written anew", 15*time.Minute)},
		{Name: "wait_for_deployed", Do: nop, Pivot: true, About: about("machine", "", 10*time.Minute), Rescue: []chain.Stage[state]{
			{Name: "classify_deploy_failure", Do: nop},
			{Name: "recover_for_datasource_retry", Do: nop, Then: "deploy_via_maas", About: about("machine", "it is released", 5*time.Minute)},
		}},
		{Name: "apply_roce_phase2", Do: nop, Optional: true},
	}}
	plan, err := chain.Plan(c, state{Trail: []string{"gpu-07"}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, p := range plan {
		fmt.Fprintf(&b, "%s %s %v %v %q %q %v\n", p.Stage, p.Rescues, p.Optional, p.Pivot, p.Touches, p.Destructive, p.Expected)
	}
	const want = `load_site_config  false false "" "" 0s
deploy_via_maas  false false "machine gpu-07" "the boot disk is written anew" 15m0s
wait_for_deployed  false true "machine gpu-07" "" 10m0s
classify_deploy_failure wait_for_deployed false false "" "" 0s
recover_for_datasource_retry wait_for_deployed false false "machine gpu-07" "it is released" 5m0s
apply_roce_phase2  true false "" "" 0s
`
	if b.String() != want {
		t.Errorf("the plan is\n%s\nwant\n%s", b.String(), want)
	}
}
