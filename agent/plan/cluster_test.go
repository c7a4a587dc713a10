package plan

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/taskcatalog"
)

const joins = `[{"id":"token","kind":"credential.mint","with":{"type":"cluster_join_token","scope":"lab"}},
	{"id":"join","kind":"cluster.join","with":{"cluster":"slurm","credential":{"from":"steps.token"}}},
	{"id":"verify","kind":"cluster.verify","attempts":3,"rerun":true,"with":{"cluster":"slurm","name":"lab"}}]`

// A node joins with the key, and is a member when the cluster says so; the key is in nothing that the
// task tells.
func TestANodeJoinsAndTheClusterConfirmsIt(t *testing.T) {
	const key = "planted-key-of-the-cluster-32-byte"
	raw, err := json.Marshal(taskcatalog.ClusterJoin{Node: "gpu-7", Controller: "ctl.example:6817", Auth: "slurm", Key: []byte(key)})
	if err != nil {
		t.Fatal(err)
	}
	v := newVault(t)
	v.kinds["credential.mint"], _ = steps.Lookup("credential.mint")
	hosttest.Put(t, v.dir, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nslurm:x:0:0::/:/bin/false\n")
	asked := []string{}
	v.mint = func(step, credentialType string) ([]byte, error) {
		asked = append(asked, step+" "+credentialType)
		switch {
		case credentialType == taskcatalog.CredentialClusterJoin:
			v.memory = append(v.memory, append([]byte(nil), raw...))
			return v.memory[len(v.memory)-1], nil
		case len(asked) < 4:
			return []byte(`{"state":"joining","words":"UNKNOWN"}`), nil
		}
		return []byte(`{"state":"member","words":"IDLE"}`), nil
	}
	e := v.run(t.Context(), "t-1", aPlan(t, joins))
	if e.err != nil || e.result.Wiped != 1 {
		t.Fatal(e.result, e.err)
	}
	if got := strings.Join(asked, ", "); got != "token cluster_join_token, verify cluster_membership, verify cluster_membership, verify cluster_membership" {
		t.Errorf("asked %s", got)
	}
	if got := hosttest.Read(t, v.dir, "etc/slurm/slurm.key"); got != key {
		t.Errorf("the key is %q", got)
	}
	v.holds("a join", e)
	told, err := json.Marshal([]any{e.result, e.report, v.said, v.book.kept})
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{key, base64.StdEncoding.EncodeToString([]byte(key))} {
		if strings.Contains(string(told), form) || strings.Contains(v.log.String(), form) {
			t.Errorf("the key is told: %s", told)
		}
	}
	for _, kept := range v.book.kept {
		if strings.Contains(string(kept), key) {
			t.Error("the key is in the journal")
		}
	}

	v.mint = func(_, credentialType string) ([]byte, error) {
		if credentialType == taskcatalog.CredentialClusterJoin {
			t.Error("a node that has joined asks for the key again")
		}
		return []byte(`{"state":"down","words":"DOWN"}`), nil
	}
	if e := v.run(t.Context(), "t-2", aPlan(t, joins)); taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeStepFailed {
		t.Errorf("a node that is down ends with %v", e.err)
	}
}

// A cluster that has the node gives its key no second time. A task that goes on with an operation whose join was cut
// off, or whose verification failed, asks for none: the node proves that it has joined.
func TestANodeThatHasJoinedAsksForNoSecondKey(t *testing.T) {
	raw, err := json.Marshal(taskcatalog.ClusterJoin{Node: "gpu-7", Controller: "ctl.example:6817", Auth: "slurm", Key: []byte("planted-key-of-the-cluster-32-byte")})
	if err != nil {
		t.Fatal(err)
	}
	for name, task := range map[string]string{"a new process": "t-1", "a new task": "t-2"} {
		for _, cut := range []string{"slurmd runs", "the end is noted"} {
			v := newVault(t)
			v.kinds["credential.mint"], _ = steps.Lookup("credential.mint")
			hosttest.Put(t, v.dir, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nslurm:x:0:0::/:/bin/false\n")
			minted := 0
			v.mint = func(_, credentialType string) ([]byte, error) {
				if credentialType == taskcatalog.CredentialClusterMembership {
					return []byte(`{"state":"member","words":"IDLE"}`), nil
				}
				if minted++; minted > 1 {
					return nil, taskcatalog.Errorf("cluster_member_stale", "the cluster says member")
				}
				return append([]byte(nil), raw...), nil
			}
			real, _ := steps.Lookup("cluster.join")
			joining := real
			joining.Do = func(ctx context.Context, s *steps.Step) (steps.Proof, error) {
				proof, err := real.Do(ctx, s)
				if cut == "slurmd runs" {
					crash()
				}
				return proof, err
			}
			v.kinds["cluster.join"] = joining
			if cut == "the end is noted" {
				v.kinds["cluster.verify"] = steps.Kind{Do: func(context.Context, *steps.Step) (steps.Proof, error) { crash(); return steps.Proof{}, nil }}
			}
			if e := v.run(t.Context(), "t-1", aPlan(t, joins)); !e.crashed {
				t.Fatalf("%s, %s: no crash: %v", name, cut, e.err)
			}
			v.kinds["cluster.join"], _ = steps.Lookup("cluster.join")
			v.kinds["cluster.verify"], _ = steps.Lookup("cluster.verify")
			if e := v.run(t.Context(), task, aPlan(t, joins)); e.err != nil || minted != 1 {
				t.Errorf("%s, %s: %v, minted %d times: %s", name, cut, e.err, minted, story(e))
			}
		}
	}
}

// A step that leaves asks until the cluster has let the node go; one that ends before that says what the
// cluster said.
func TestANodeLeavesWhenTheClusterSaysSo(t *testing.T) {
	v := newVault(t)
	asked := []string{}
	answers := []string{`{"state":"absent","words":"no such node"}`}
	v.mint = func(step, credentialType string) ([]byte, error) {
		asked = append(asked, step+" "+credentialType)
		return []byte(answers[0]), nil
	}
	const leaves = `[{"id":"leave","kind":"cluster.leave","rerun":true,"with":{"cluster":"slurm","name":"lab"}}]`
	if e := v.run(t.Context(), "t-1", aPlan(t, leaves)); e.err != nil || strings.Join(asked, ", ") != "leave cluster_leave, leave cluster_leave" {
		t.Error(e.result, e.err, asked)
	}
	synctest.Test(t, func(t *testing.T) {
		answers[0] = `{"state":"draining","words":"MIXED+DRAIN"}`
		e := v.run(t.Context(), "t-2", aPlan(t, leaves))
		if taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeStepFailed || !strings.Contains(e.err.Error(), "cluster lab says draining (MIXED+DRAIN)") {
			t.Errorf("with work: %v", e.err)
		}
	})
}
