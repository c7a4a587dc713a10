package slurm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	adapter "github.com/hostler/hostler/broker/cluster/slurm"
	"github.com/hostler/hostler/taskcatalog"
)

// notes is a checkpoint in memory.
type notes struct{ state []byte }

func (n *notes) Load() ([]byte, error)   { return n.state, nil }
func (n *notes) Save(state []byte) error { n.state = state; return nil }

// What the step cluster.join puts on a node makes it a member of a real cluster: slurmd is started as
// the unit's file says, and sees the key that the step has written.
func TestAStepMakesANodeAMember(t *testing.T) {
	c := Start(t)
	record, access := c.Record()
	h, dir := hosttest.Box(t)
	hosttest.Put(t, dir, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nslurm:x:0:0::/:/bin/sh\n")
	systemd := h.Systemd.(*hosttest.Systemd)
	systemd.On = map[string]bool{}
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
		c.Node(strings.Fields(command), key)
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
		is, err := a.Membership(t.Context(), "gpu-7")
		return err == nil && is.State == taskcatalog.ClusterMember
	})
	if out := c.Run("srun", "--nodes=1", "--constraint=h100", "--chdir=/tmp", "/usr/bin/id", "-u"); strings.TrimSpace(out) != "0" {
		t.Errorf("the job says %q", out)
	}
	if _, done, err := kind.Look(t.Context(), step); err != nil || !done {
		t.Errorf("a look says %v, %v", done, err)
	}
}

func joinStep(h *host.Host, args steps.Args) *steps.Step {
	return &steps.Step{Host: h, Args: args, Checkpoint: &notes{}, Progress: func(int, string) {}, Plan: &taskcatalog.OperationPlan{}}
}
