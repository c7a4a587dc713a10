package plan

import (
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
			return append([]byte(nil), raw...), nil
		}
		return []byte(`{"state":"down","words":"DOWN"}`), nil
	}
	if e := v.run(t.Context(), "t-2", aPlan(t, joins)); taskcatalog.CodeOf(e.err, "") != taskcatalog.CodeStepFailed {
		t.Errorf("a node that is down ends with %v", e.err)
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
