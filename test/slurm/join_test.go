package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/broker/cluster"
	adapter "github.com/hostler/hostler/broker/cluster/slurm"
	"github.com/hostler/hostler/taskcatalog"
)

// notes is a checkpoint in memory.
type notes struct{ state []byte }

func (n *notes) Load() ([]byte, error)   { return n.state, nil }
func (n *notes) Save(state []byte) error { n.state = state; return nil }

// What the step cluster.join puts on a node makes it a member of a real cluster: slurmd is started as
// the unit's file says, and sees the key that the step has written. The step cluster.leave takes it out.
func TestANodeJoinsAndLeavesByItsSteps(t *testing.T) {
	c := Start(t)
	record, access := c.Record()
	h, dir := hosttest.Box(t)
	hosttest.Put(t, dir, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nslurm:x:0:0::/:/bin/sh\n")
	systemd := h.Systemd.(*hosttest.Systemd)
	systemd.Obeys, systemd.On = true, map[string]bool{}
	stop := func() {}
	systemd.OnStart = func(unit string) error {
		if unit != "slurmd.service" {
			t.Errorf("%s is started", unit)
			return nil
		}
		_, command, _ := strings.Cut(hosttest.Read(t, dir, "etc/systemd/system/slurmd.service.d/50-hostler.conf"), "ExecStart=\nExecStart=")
		key, err := os.ReadFile(filepath.Join(dir, "etc/slurm/slurm.key"))
		if err != nil {
			return err
		}
		stop = c.Node(strings.Fields(command), key)
		systemd.On[unit] = true
		return nil
	}
	secret, err := json.Marshal(taskcatalog.ClusterJoin{Node: "gpu-7", Controller: record.Controller, Auth: record.JoinAuth, Key: access.JoinSecret})
	if err != nil {
		t.Fatal(err)
	}
	a := adapter.New(record, access)
	step := joinStep(h, steps.Args{"cluster": "slurm", "credential": steps.NewSecret(secret, nil), "labels": []string{"gpu", "h100"}})
	kind, _ := steps.Lookup("cluster.join")
	if _, err := kind.Do(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	c.Until("the node is a member", func() bool {
		is, err := a.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"})
		return err == nil && is.State == taskcatalog.ClusterMember
	})
	if out := c.Run("srun", "--nodes=1", "--constraint=h100", "--chdir=/tmp", "/usr/bin/id", "-u"); strings.TrimSpace(out) != "0" {
		t.Errorf("the job says %q", out)
	}
	if _, done, err := kind.Look(t.Context(), step); err != nil || !done {
		t.Errorf("a look says %v, %v", done, err)
	}

	// A job that runs goes on, and keeps the node a member.
	c.Run("sbatch", "--nodelist=gpu-7", "--chdir=/tmp", "--output=/dev/null", "--job-name=long", "--wrap=touch /tmp/runs && sleep 600")
	c.Until("the job runs", func() bool {
		_, err := os.Lstat(c.Root + "/tmp/runs")
		return err == nil
	})
	b := newBroker(t, record, access)
	for range 2 {
		if is := b.leave(t); is.State != "draining" || !strings.Contains(c.Run("squeue", "--noheader", "--states=RUNNING", "--format=%j"), "long") {
			t.Errorf("with a job: %+v", is)
		}
	}
	if out := c.Run("sinfo", "--list-reasons", "--format=%E"); !strings.Contains(out, "operation op-1") {
		t.Errorf("sinfo says %s", out)
	}
	c.Run("scancel", "--name=long")
	c.Until("the node is drained", func() bool {
		is, err := a.Membership(t.Context(), cluster.Node{Name: "gpu-7", ID: "n-7"})
		return err == nil && is.State == cluster.Drained
	})
	step = joinStep(h, steps.Args{"cluster": "slurm", "name": "lab"})
	step.Mint = func(ctx context.Context) ([]byte, error) {
		if systemd.HasAsked("stop slurmd.service") {
			stop()
		}
		return b.ask(ctx)
	}
	kind, _ = steps.Lookup("cluster.leave")
	if proof, err := kind.Do(t.Context(), step); err != nil || !strings.Contains(proof.Message, "cluster lab says absent") {
		t.Fatal(proof, err)
	}
	if out := c.Run("sinfo", "--noheader", "--Node"); strings.Contains(out, "gpu-7") {
		t.Errorf("sinfo says %s", out)
	}
	if _, err := os.Lstat(filepath.Join(dir, "etc/slurm/slurm.key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the key: %v", err)
	}
}

func joinStep(h *host.Host, args steps.Args) *steps.Step {
	return &steps.Step{Host: h, Args: args, Checkpoint: &notes{}, Progress: func(int, string) {}, Plan: &taskcatalog.OperationPlan{}}
}
