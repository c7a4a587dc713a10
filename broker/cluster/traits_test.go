package cluster

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// A member that lacks what the step asks for is not confirmed, and what it lacks is told. What nobody asks for
// does not matter.
func TestAMemberHasWhatTheStepAsksFor(t *testing.T) {
	has := Traits{
		Labels: []string{"kubernetes.io/hostname=gpu-7", "pool=a"}, Taints: []string{"nvidia.com/gpu=present:NoSchedule"},
		Version: "v1.35.4", GPUs: 8,
	}
	for asks, want := range map[string]string{
		``:                              "member IDLE",
		`,"labels":["pool=a"]`:          "member IDLE",
		`,"labels":["pool=a","zone=b"]`: "joining IDLE; lacks label zone=b",
		`,"labels":["pool=b"]`:          "joining IDLE; lacks label pool=b",
		`,"labels":["pool=A"]`:          "joining IDLE; lacks label pool=A",
		`,"taints":["nvidia.com/gpu=present:NoSchedule"]`: "member IDLE",
		`,"taints":["nvidia.com/gpu=present:NoExecute"]`:  "joining IDLE; lacks taint nvidia.com/gpu=present:NoExecute",
		`,"taints":["nvidia.com/gpu:NoSchedule"]`:         "joining IDLE; lacks taint nvidia.com/gpu:NoSchedule",
		`,"version":"v1.35.4"`:                            "member IDLE",
		`,"version":"v1.35.5"`:                            "joining IDLE; lacks version v1.35.5, it has v1.35.4",
		`,"gpus":8`:                                       "member IDLE",
		`,"gpus":9`:                                       "joining IDLE; lacks 9 GPUs, it has 8",
		`,"labels":["zone=b"],"gpus":9`:                   "joining IDLE; lacks label zone=b; 9 GPUs, it has 8",
	} {
		s := newSite(t, strings.Replace(plan, `"cluster.verify","with":{"cluster":"slurm","name":"lab"`, `"cluster.verify","with":{"cluster":"slurm","name":"lab"`+asks, 1))
		s.fake.is.Traits = has
		got, err := s.ask(t, "cluster_membership", "verify")
		var is taskcatalog.ClusterMembership
		if err != nil || json.Unmarshal([]byte(got.Secret), &is) != nil || is.State+" "+is.Words != want {
			t.Errorf("%s: %+v %v, want %s", asks, is, err, want)
		}
		// What lacks something keeps the token with which it still joins.
		if took := strings.Contains(strings.Join(s.fake.asked, ", "), "joined"); took != strings.HasPrefix(want, "member") {
			t.Errorf("%s: asked %v", asks, s.fake.asked)
		}
	}
	for asks, want := range map[string]string{
		``:          "member IDLE",
		`"gpus":0,`: "member IDLE",
		`"gpus":1,`: "joining IDLE; lacks 1 GPUs, it has a number that is not understood",
	} {
		s := newSite(t, strings.Replace(plan, `"cluster.verify","with":{`, `"cluster.verify","with":{`+asks, 1))
		s.fake.is.Traits = Traits{GPUs: -1}
		got, err := s.ask(t, "cluster_membership", "verify")
		var is taskcatalog.ClusterMembership
		if err != nil || json.Unmarshal([]byte(got.Secret), &is) != nil || is.State+" "+is.Words != want {
			t.Errorf("a count that is not understood, %s: %+v %v, want %s", asks, is, err, want)
		}
	}
	for _, state := range []State{Joining, Down, Draining, Drained, Absent, Unknown} {
		s := newSite(t, strings.Replace(plan, `"cluster.verify","with":{`, `"cluster.verify","with":{"gpus":9,`, 1))
		s.fake.is = Membership{State: state, Words: "x"}
		got, err := s.ask(t, "cluster_membership", "verify")
		var is taskcatalog.ClusterMembership
		if err != nil || json.Unmarshal([]byte(got.Secret), &is) != nil || is.State != string(state) || is.Words != "x" {
			t.Errorf("%s: %+v %v", state, is, err)
		}
	}
}
