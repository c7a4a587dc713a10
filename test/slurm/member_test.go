package slurm

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	adapter "github.com/hostler/hostler/broker/cluster/slurm"
)

// A node joins a real cluster, works, is drained, and is forgotten; the adapter sees each.
func TestANodeIsAMemberUntilItLeaves(t *testing.T) {
	c := Start(t)
	a := adapter.New(c.Record())
	is := func() cluster.Membership {
		t.Helper()
		m, err := a.Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := is(); m.State != cluster.Absent {
		t.Fatalf("before: %+v", m)
	}
	if _, err := a.Drain(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, cluster.DrainOrder{Reason: "early"}); err == nil || broker.AsError(err).Code != "cluster_node_unknown" {
		t.Fatal(err)
	}
	stop := c.Begin("slurmd", "-D", "-Z", "-N", "n1", "--conf-server", Controller, "--conf", "Feature=gpu")
	c.Until("the node is a member", func() bool { return is().State == cluster.Member })
	if out := c.Run("srun", "--nodes=1", "--constraint=gpu", "--chdir=/tmp", "/usr/bin/id", "-u"); strings.TrimSpace(out) != "0" {
		t.Errorf("the job says %q", out)
	}

	// A job that runs keeps the node from being drained.
	c.Run("sbatch", "--nodelist=n1", "--chdir=/tmp", "--output=/dev/null", "--job-name=long", "--wrap=sleep 600")
	c.Until("the job runs", func() bool { return strings.Contains(c.Run("squeue", "--noheader", "--states=RUNNING"), "long") })
	if _, err := a.Drain(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, cluster.DrainOrder{Reason: "it goes back to the pool"}); err != nil {
		t.Fatal(err)
	}
	if m := is(); m.State != cluster.Draining || m.Reason != "it goes back to the pool" || !strings.Contains(m.Words, "DRAIN") {
		t.Errorf("with a job: %+v", m)
	}
	if _, err := a.Drain(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}, cluster.DrainOrder{Reason: "again"}); err != nil {
		t.Error(err)
	}
	if err := a.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err == nil || broker.AsError(err).Code != "cluster_refused" {
		t.Errorf("a node with a job is removed: %v", err)
	}
	c.Run("scancel", "--name=long")
	c.Until("the node is drained", func() bool { return is().State == cluster.Drained })
	if out := c.Run("sinfo", "--list-reasons"); !strings.Contains(out, "it goes back") {
		t.Errorf("sinfo says %s", out)
	}

	stop()
	if err := a.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err != nil {
		t.Fatal(err)
	}
	if m := is(); m.State != cluster.Absent {
		t.Errorf("after: %+v", m)
	}
	if err := a.Remove(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func TestAnotherKeyIsNoMember(t *testing.T) {
	c := Start(t)
	record, access := c.Record()
	access.Token = "eyJhbGciOiJIUzI1NiJ9.e30.AAAA"
	if _, err := adapter.New(record, access).Membership(t.Context(), cluster.Node{Name: "n1", ID: "n-7"}); err == nil || broker.AsError(err).Code != "cluster_token_refused" {
		t.Error(err)
	}
}
