package operation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/taskcatalog"
)

func TestAnOperationEndsWithTheRowsOfItsSteps(t *testing.T) {
	w := newWorld(t, "n-1", "n-2")
	w.start()
	w.settle()
	w.stands(broker.OperationSucceeded, "")
	want := []string{
		"1/0/0 driver gpu.driver.validate succeeded", "1/0/1 runtime gpu.runtime.check skipped",
		"1/1/0 driver gpu.driver.validate succeeded", "1/1/1 runtime gpu.runtime.check skipped",
	}
	if got := w.rows(); !slices.Equal(got, want) {
		t.Errorf("the rows are %q", got)
	}
	if !slices.Equal(w.asked, []string{"op-1-1/n-1", "op-1-1/n-2"}) {
		t.Errorf("asked %q", w.asked)
	}
}

// An attempt ends with its statement, and waits until one can be signed.
func TestAnOperationEndsWithItsStatement(t *testing.T) {
	w := newWorld(t, "n-1")
	w.unsigned = broker.Errorf(broker.Unavailable, "no_signing_key", "there is no statement key")
	w.start()
	w.settleFor(time.Minute)
	if w.ends != 0 || w.o.Status != broker.OperationRunning {
		t.Errorf("it is %s without a statement", w.o.Status)
	}
	w.unsigned = nil
	w.settle()
	w.stands(broker.OperationSucceeded, "")
	if !slices.Equal(w.stated, []string{"op-1 1 succeeded"}) {
		t.Errorf("its statements: %q", w.stated)
	}
}

// An operation that is about to begin waits for a policy engine that gives no answer, but not for ever.
func TestAnOperationWaitsForThePolicyEngine(t *testing.T) {
	away := broker.Errorf(broker.Refused, broker.PolicyEngineUnreachable, "the policy engine gives no answer")
	for name, c := range map[string]struct {
		after  time.Duration
		status broker.OperationStatus
		code   string
	}{
		"it answers in time": {4 * time.Minute, broker.OperationSucceeded, ""},
		"it stays away":      {6 * time.Minute, broker.OperationFailed, broker.PolicyEngineUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "n-1")
			w.refuse = away
			w.start()
			w.settleFor(c.after)
			if c.code == "" && (w.ends != 0 || w.o.Status != broker.OperationQueued) {
				t.Errorf("it is %s while the engine is away", w.o.Status)
			}
			w.refuse = nil
			w.settle()
			w.stands(c.status, c.code)
		})
	}
}

func TestOneFailedNodeFailsTheOperationAndTheOthersFinish(t *testing.T) {
	w := newWorld(t, "n-1", "n-2")
	w.does = func(k *broker.Task) {
		if k.NodeID == "n-1" {
			fail(k)
		} else if k.Progress == nil {
			k.Status, k.Progress = broker.TaskDispatched, &broker.Progress{}
		} else {
			succeed(k)
		}
	}
	w.start()
	w.settle()
	w.stands(broker.OperationFailed, "step_failed")
	if len(w.steps) != 3 || !strings.Contains(w.o.Message, "no driver") {
		t.Errorf("%q, %q", w.rows(), w.o.Message)
	}
}

// A success that its rows do not bear out, or that names other steps, is none.
func TestASuccessWithoutTheRowsOfItsStepsIsNone(t *testing.T) {
	good := row("driver", taskcatalog.StepSucceeded, "")
	for name, rows := range map[string][]taskcatalog.OperationStep{
		"no row":                 nil,
		"a step is missing":      {good},
		"a step failed":          {good, row("runtime", taskcatalog.StepFailed, "exit_code")},
		"a step failed at last":  {good, row("runtime", taskcatalog.StepSucceeded, ""), row("runtime", taskcatalog.StepFailed, "exit_code")},
		"a status that is none":  {good, row("runtime", "fine", "")},
		"a step of another plan": {good, row("other", taskcatalog.StepSucceeded, "")},
	} {
		w := newWorld(t, "n-1")
		w.does = func(k *broker.Task) {
			k.Status = broker.TaskSucceeded
			result(k, rows...)
		}
		w.start()
		w.settle()
		w.stands(broker.OperationFailed, broker.OperationIncomplete)
		for _, s := range w.steps {
			if s.ID != "driver" && s.ID != "runtime" || strings.Contains(s.StepKind, "told") {
				t.Errorf("%s: row %+v", name, s)
			}
		}
	}
}

func TestAnUnknownEndIsNoSuccess(t *testing.T) {
	for _, c := range []struct {
		status broker.TaskStatus
		code   taskcatalog.Code
		want   string
	}{
		{broker.TaskExpired, "", "agent_silent"},
		{broker.TaskFailed, taskcatalog.CodeOutcomeUnknown, "agent_silent"},
		{broker.TaskFailed, taskcatalog.CodeNodeReenrolled, "node_reenrolled"},
		{broker.TaskCanceled, "", "task_canceled"},
	} {
		w := newWorld(t, "n-1")
		w.does = func(k *broker.Task) { k.Status, k.Code = c.status, c.code }
		w.start()
		w.settle()
		w.stands(broker.OperationFailed, c.want)
	}
}

func TestATargetThatIsGoneGetsNoTask(t *testing.T) {
	w := newWorld(t, "n-1")
	w.refuse = broker.Errorf(broker.Refused, broker.OperationTargetGone, "it was released")
	w.start()
	w.settle()
	w.stands(broker.OperationFailed, broker.OperationTargetGone)
	if len(w.asked) != 0 {
		t.Errorf("asked %q", w.asked)
	}
}

// The target is checked again in the step that signs, and while the task runs.
func TestATargetThatGoesLosesItsTask(t *testing.T) {
	w := newWorld(t, "n-1", "n-2")
	w.does = func(k *broker.Task) { k.Status = broker.TaskDispatched }
	w.start()
	w.settleFor(time.Minute)
	w.refuse = broker.Errorf(broker.Refused, broker.OperationTargetGone, "it was released")
	w.settle()
	w.stands(broker.OperationFailed, broker.OperationTargetGone)
	for _, k := range w.tasks {
		if k.Status != broker.TaskCanceled {
			t.Errorf("task %s is %s", k.ID, k.Status)
		}
	}
}

func TestRecordsThatAreAwayFailNothing(t *testing.T) {
	w := newWorld(t, "n-1")
	w.refuse = broker.Errorf(broker.Unavailable, "store_unavailable", "no database")
	w.start()
	w.settleFor(time.Hour)
	if w.o.Status != broker.OperationQueued {
		t.Errorf("it is %s", w.o.Status)
	}
	w.refuse = nil
	w.settle()
	w.stands(broker.OperationSucceeded, "")
}

// A cancel is a mark on the operation; an action on the run does the same.
func TestACancelWithdrawsTheTasksAndWaitsForTheirEnd(t *testing.T) {
	for name, cancel := range map[string]func(w *world){
		"the operation": func(w *world) { w.o.CanceledBy = "ada" },
		"the run":       func(w *world) { w.act(chain.Cancel) },
	} {
		w := newWorld(t, "n-1", "n-2")
		w.does = func(k *broker.Task) {
			if k.NodeID == "n-1" {
				k.Status = broker.TaskDispatched
			}
		}
		w.start()
		w.settleFor(time.Minute)
		cancel(w)
		w.settle()
		w.stands(broker.OperationCanceled, "canceled")
		for _, k := range w.tasks {
			if k.Status != broker.TaskCanceled {
				t.Errorf("%s: task %s is %s", name, k.ID, k.Status)
			}
		}
	}
}

func TestACancelBeforeTheTaskEndsTheOperation(t *testing.T) {
	w := newWorld(t, "n-1")
	w.start()
	w.o.CanceledBy = "ada"
	w.settle()
	w.stands(broker.OperationCanceled, "canceled")
	if len(w.asked) != 0 {
		t.Errorf("asked %q", w.asked)
	}
}

func TestACancelThatComesTooLateLeavesTheSuccess(t *testing.T) {
	w := newWorld(t, "n-1")
	w.does = func(k *broker.Task) { k.Status = broker.TaskDispatched }
	w.start()
	w.settleFor(time.Minute)
	succeed(w.tasks["op-1-1/n-1"])
	w.o.CanceledBy = "ada"
	w.settle()
	w.stands(broker.OperationSucceeded, "")
}

func TestANodeThatNeverEndsFreesItsOperation(t *testing.T) {
	w := newWorld(t, "n-1")
	w.does = func(k *broker.Task) { k.Status = broker.TaskDispatched }
	w.start()
	for range 30 {
		w.settleFor(time.Minute)
		w.clock.Advance(time.Hour)
	}
	w.settle()
	w.stands(broker.OperationFailed, "agent_silent")
	if k := w.tasks["op-1-1/n-1"]; !k.CancelRequested && !k.Status.Ended() {
		t.Errorf("the task goes on after its nodes are free: %s", k.Status)
	}
}

// What an operation changes on a node is no reason to end it; who holds the node is.
func TestARunningOperationIsHeldAgainstItsTargetAlone(t *testing.T) {
	o := broker.Operation{
		Operation: "demo.look@v1", ProjectID: "p-1", Target: broker.TargetAllocation, AllocationID: "a-1", NodeIDs: []string{"n-1"},
		Requires: map[string][]string{"gpu.vendor": {"nvidia"}}, Status: broker.OperationQueued,
	}
	a := broker.Allocation{ID: "a-1", ProjectID: "p-1", Status: broker.AllocationActive, NodeIDs: o.NodeIDs}
	bare := operation.Place{Node: broker.Node{ID: "n-1", Status: broker.Active}, Claim: "a-1"} // its GPUs are away for a while
	if err := operation.Fit(o, o.Parts()[0], a, []operation.Place{bare}, true); err == nil {
		t.Error("an operation begins on a node that cannot carry it out")
	}
	if err := operation.Fit(o, o.Parts()[0], a, []operation.Place{bare}, false); err != nil {
		t.Errorf("an operation ends itself: %v", err)
	}
	bare.Claim = "a-2"
	if err := operation.Fit(o, o.Parts()[0], a, []operation.Place{bare}, false); broker.AsError(err).Code != broker.OperationTargetGone {
		t.Errorf("%v", err)
	}
}

// The required number of GPUs is the least number.
func TestANodeNeedsAsManyGPUsAsTheOperationRequires(t *testing.T) {
	o := broker.Operation{
		Operation: "demo.look@v1", Target: broker.TargetNode, NodeIDs: []string{"n-1"}, Status: broker.OperationQueued,
		Requires: map[string][]string{taskcatalog.GPUCount: {"8"}},
	}
	for reported, fits := range map[string]bool{"8": true, "10": true, "7": false, "1": false, "": false, "many": false} {
		n := broker.Node{
			ID: "n-1", Status: broker.Active, TaskTypes: []string{operation.TaskType + "@1"},
			Capabilities: map[string]string{taskcatalog.GPUCount: reported},
		}
		err := operation.Fit(o, o.Parts()[0], broker.Allocation{}, []operation.Place{{Node: n}}, true)
		if fits && err != nil || !fits && broker.AsError(err).Code != string(taskcatalog.CodeCapabilityMissing) {
			t.Errorf("%q GPUs: %v", reported, err)
		}
	}
}

// A plan with the signature of a file needs an agent that knows the argument: an earlier one would refuse the plan on the node. What
// an agent reports that is no number is no form.
func TestAnAgentMustUnderstandThePlan(t *testing.T) {
	pull := func(with map[string]taskcatalog.StepValue) taskcatalog.OperationPlan {
		return taskcatalog.OperationPlan{Steps: []taskcatalog.PlannedStep{{ID: "pull", Kind: "artifact.pull_blob", With: with}}}
	}
	signed := pull(map[string]taskcatalog.StepValue{"signature": {Literal: "x"}})
	join := func(cluster string) taskcatalog.OperationPlan {
		return taskcatalog.OperationPlan{Steps: []taskcatalog.PlannedStep{{
			ID: "pull", Kind: "cluster.join", With: map[string]taskcatalog.StepValue{"cluster": {Literal: cluster}},
		}}}
	}
	tainted := join("k8s")
	tainted.Steps[0].With["taints"] = taskcatalog.StepValue{Literal: []string{"pool:NoExecute"}}
	for _, c := range []struct {
		reported string
		plan     taskcatalog.OperationPlan
		argument string // that the agent does not understand; empty: it carries the plan out
	}{
		{"", pull(nil), ""},
		{"2", signed, ""},
		{"3", signed, ""},
		{"", signed, "signature"},
		{"1", signed, "signature"},
		{"many", signed, "signature"},
		{"-2", signed, "signature"},
		// An agent of form 2 joins without the label by which the record is the node's.
		{"", join("slurm"), ""},
		{"2", join("k8s"), "cluster"},
		{"", join("ray"), "cluster"},
		{"2", join("ray"), "cluster"},
		{"2", tainted, "taints"},
		{"3", join("k8s"), ""},
		{"3", join("ray"), ""},
		{"3", tainted, ""},
	} {
		o := broker.Operation{Operation: "demo.pull@v1", Target: broker.TargetNode, NodeIDs: []string{"n-1"}, Status: broker.OperationQueued, Plan: c.plan}
		n := broker.Node{
			ID: "n-1", Status: broker.Active, TaskTypes: []string{operation.TaskType + "@1"},
			Capabilities: map[string]string{taskcatalog.CapabilityOperationForm: c.reported},
		}
		err := operation.Fit(o, o.Parts()[0], broker.Allocation{}, []operation.Place{{Node: n}}, true)
		if c.argument == "" && err != nil || c.argument != "" && broker.AsError(err).Code != broker.AgentOutdated {
			t.Errorf("form %q: %v", c.reported, err)
		}
		if c.argument != "" && !strings.Contains(err.Error(), "argument "+c.argument+" of step pull") {
			t.Errorf("%v", err)
		}
		if err := operation.Fit(o, o.Parts()[0], broker.Allocation{}, []operation.Place{{Node: n}}, false); err != nil {
			t.Errorf("form %q: what runs goes on: %v", c.reported, err)
		}
	}
}

// A retry is another run, another task and the next attempt; the former run changes nothing any more.
func TestARetryIsANewTaskOfTheSamePlan(t *testing.T) {
	w := newWorld(t, "n-1")
	w.does = fail
	w.start()
	w.settle()
	w.stands(broker.OperationFailed, "step_failed")
	w.o.Status, w.o.Code, w.o.Attempt, w.o.RunID, w.ends, w.does = broker.OperationQueued, "", 2, "op-1-2", 0, nil
	w.start()
	w.settle()
	w.stands(broker.OperationSucceeded, "")
	if !slices.Equal(w.asked, []string{"op-1-1/n-1", "op-1-2/n-1"}) || w.steps[1].Task != 2 {
		t.Errorf("asked %q, rows %q", w.asked, w.rows())
	}
}

// Each step is announced once, by its place and without its node; what is no step of the plan is not.
func TestProgressIsAnnouncedOnceAStep(t *testing.T) {
	w := newWorld(t, "n-secret")
	looks := 0
	w.does = func(k *broker.Task) {
		looks++
		k.Status = broker.TaskDispatched
		switch {
		case looks < 4:
			k.Progress = &broker.Progress{CurrentStepName: "driver", StepStatus: "running", StepPercent: looks}
		case looks < 6:
			k.Progress = &broker.Progress{CurrentStepName: "../../etc", StepStatus: "running"}
		case looks < 8:
			k.Progress = &broker.Progress{CurrentStepName: "runtime", StepStatus: "run\x1b[2Jning", StepPercent: 900}
		case looks < 30: // it goes to and fro
			k.Progress = &broker.Progress{CurrentStepName: []string{"driver", "runtime"}[looks%2], StepStatus: fmt.Sprint(looks)}
		default:
			succeed(k)
		}
	}
	w.start()
	w.settle()
	w.stands(broker.OperationSucceeded, "")
	got := w.told()
	if len(got) != 2 || got[0] != "1 driver running" || !strings.HasPrefix(got[1], "1 runtime ") || strings.Contains(got[1], "\x1b") {
		t.Errorf("told %q", got)
	}
	if strings.Contains(fmt.Sprint(w.store.Outbox()), "n-secret") {
		t.Error("an event names the node")
	}
}

// What a node reports is cleaned and bounded.
func TestRowsOfANodeAreCleaned(t *testing.T) {
	w := newWorld(t, "n-1")
	k := broker.Task{}
	bad := row("driver", taskcatalog.StepFailed, taskcatalog.Code(strings.Repeat("x", 1000)))
	bad.Message, bad.ResolvedProfile, bad.DurationMS, bad.Bytes, bad.Output = "a\x1b[31m\nb"+strings.Repeat("y", 5000), strings.Repeat("z", 999), -5, -1, "kept by nobody"
	var many []taskcatalog.OperationStep
	for range 2000 {
		many = append(many, bad)
	}
	result(&k, many...)
	rows := operation.Rows(w.o, k)
	if len(rows) != 704 {
		t.Errorf("%d rows", len(rows))
	}
	s := rows[0]
	if strings.ContainsAny(s.Message, "\x1b\n") || len(s.Message) > 1024 || len(s.ErrorCode) > 64 || len(s.ResolvedProfile) > 128 || s.DurationMS != 0 || s.Bytes != 0 || s.Output != "" {
		t.Errorf("%+v", s)
	}
	for _, raw := range []string{``, `null`, `[]`, `{"steps":"x"}`, `{"steps":[],"more":1}`} {
		if rows := operation.Rows(w.o, broker.Task{Result: []byte(raw)}); len(rows) != 0 {
			t.Errorf("%q has rows %+v", raw, rows)
		}
	}
}

// A broker that dies at any call of the store, once or with its answer lost, changes no outcome: each node
// has one task, and the operation ends once.
func TestADeathAtAnyCallEndsTheOperationOnce(t *testing.T) {
	stories := map[string]func(w *world){
		"it succeeds": func(w *world) {
			w.settle()
			w.stands(broker.OperationSucceeded, "")
		},
		"it fails": func(w *world) {
			w.does = fail
			w.settle()
			w.stands(broker.OperationFailed, "step_failed")
		},
		"it is cancelled": func(w *world) {
			w.does = func(k *broker.Task) { k.Status = broker.TaskDispatched }
			for range 3 { // a step of a broker that died is claimed again
				w.settleFor(2 * time.Minute)
			}
			w.o.CanceledBy = "ada"
			w.settle()
			w.stands(broker.OperationCanceled, "canceled")
		},
	}
	for name, story := range stories {
		play := func(t *testing.T, fate chaintest.Fate, at int) int {
			w := newWorld(t, "n-1", "n-2")
			w.lossy.Fate = func(call int) chaintest.Fate {
				if call == at {
					return fate
				}
				return chaintest.Done
			}
			w.start()
			story(w)
			if len(w.asked) != 2 {
				t.Errorf("asked %q", w.asked)
			}
			return w.lossy.Calls()
		}
		calls := min(play(t, chaintest.Done, -1), 400)
		for at := range calls {
			for _, fate := range []chaintest.Fate{chaintest.Lost, chaintest.Mute} {
				t.Run(fmt.Sprintf("%s, call %d, fate %d", name, at, fate), func(t *testing.T) { play(t, fate, at) })
				if t.Failed() {
					return
				}
			}
		}
	}
}

// A later agent's result may have more fields: its rows count, as in a statement.
func TestRowsOfALaterAgentCount(t *testing.T) {
	o := broker.Operation{Plan: taskcatalog.OperationPlan{Steps: []taskcatalog.PlannedStep{{ID: "driver", Kind: "gpu.driver.validate"}}}}
	k := broker.Task{Result: []byte(`{"operation_id":"op-1","later":true,"steps":[{"id":"driver","status":"succeeded","attempt_number":1,"later":"x"}]}`)}
	if rows := operation.Rows(o, k); len(rows) != 1 || rows[0].StepKind != "gpu.driver.validate" {
		t.Errorf("%+v", rows)
	}
}
