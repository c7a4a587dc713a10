package ray

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/agent/steps"
	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	adapter "github.com/hostler/hostler/broker/cluster/ray"
	"github.com/hostler/hostler/taskcatalog"
)

// notes is a checkpoint in memory.
type notes struct{ state []byte }

func (n *notes) Load() ([]byte, error)   { return n.state, nil }
func (n *notes) Save(state []byte) error { n.state = state; return nil }

// lab is a head, a broker and a node.
type lab struct {
	*testing.T
	head    *Head
	record  broker.Cluster
	secrets map[string][]byte
	host    *host.Host
	dir     string
	systemd *hosttest.Systemd
	joined  *notes
	// cut is called around what systemd starts; it may end the process.
	cut  func(unit string, done bool)
	said []string // what the steps say
}

func newLab(t *testing.T) *lab {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the files of the units belong to root")
	}
	h, dir := hosttest.Box(t)
	hosttest.Put(t, dir, "etc/group", "root:x:0:\nvideo:x:44:\n")
	l := &lab{T: t, head: NewHead(t), secrets: map[string][]byte{}, host: h, dir: dir, systemd: h.Systemd.(*hosttest.Systemd), joined: &notes{}, cut: func(string, bool) {}}
	l.systemd.Obeys, l.systemd.On = true, map[string]bool{}
	l.systemd.OnStart = func(unit string) error {
		l.cut(unit, false)
		if err := l.head.Run(dir, unit); err != nil {
			return err
		}
		l.systemd.On[unit] = !strings.Contains(unit, "@")
		l.cut(unit, true)
		return nil
	}
	var access cluster.Access
	l.record, access = l.head.Record()
	if err := cluster.Put(t.Context(), l, l.record, access); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) Get(_ context.Context, path string) ([]byte, error) {
	return append([]byte(nil), l.secrets[path]...), nil
}

func (l *lab) Put(_ context.Context, path string, value []byte) error {
	l.secrets[path] = append([]byte(nil), value...)
	return nil
}

func (l *lab) Cluster(context.Context, string) (broker.Cluster, error) { return l.record, nil }

func (l *lab) Node(_ context.Context, id string) (broker.Node, error) {
	return broker.Node{ID: id, Hostname: "gpu-7.dc1.example"}, nil
}

func (l *lab) MemberNameTaken(context.Context, string, string) (bool, error) { return false, nil }

const plan = `{"operation_id":"op-1","operation":"ray.node.bootstrap@v1","steps":[
{"id":"token","kind":"credential.mint","with":{"type":"cluster_join_token","scope":"train"}},
{"id":"join","kind":"cluster.join","with":{"cluster":"ray","credential":{"from":"steps.token"},"environment":{"from":"steps.environment"}}},
{"id":"verify","kind":"cluster.verify","with":{"cluster":"ray","name":"train"}},
{"id":"leave","kind":"cluster.leave","with":{"cluster":"ray","name":"train"}}]}`

// ask asks the broker for a step of the plan.
func (l *lab) ask(ctx context.Context, credentialType, step string) ([]byte, error) {
	answers := &cluster.Steps{
		Records: l, Secrets: l, Now: time.Now,
		Signed: func(raw []byte) (*taskcatalog.Task, error) {
			return &taskcatalog.Task{TaskID: "t-1", NodeID: "n-1", NodeEpoch: 1, Type: "operation.run", Params: raw}, nil
		},
		Backends: map[string]func(broker.Cluster, cluster.Access) cluster.Adapter{broker.ClusterRay: adapter.New},
	}
	minted, err := answers.Of(ctx, broker.Task{ID: "t-1", NodeID: "n-1", NodeEpoch: 1, Type: "operation.run", Envelope: []byte(plan)}, credentialType, step)
	l.said = append(l.said, minted.Opens)
	return []byte(minted.Secret), err
}

// step runs a step as an attempt of almost an hour that may be cut off, which returns errCut. Its pauses take no time.
func (l *lab) step(kind string, args steps.Args, checkpoint steps.Checkpoint, credentialType, id string) (err error) {
	l.Helper()
	s := &steps.Step{
		Host: l.host, Args: args, Checkpoint: checkpoint, Plan: &taskcatalog.OperationPlan{}, Progress: func(_ int, message string) { l.said = append(l.said, message) },
		Mint: func(ctx context.Context) ([]byte, error) {
			if l.systemd.HasAsked("stop hostler-ray.service") && !l.systemd.On["hostler-ray.service"] {
				l.head.End("gpu-7") // its processes have ended
			}
			return l.ask(ctx, credentialType, id)
		},
	}
	k, _ := steps.Lookup(kind)
	err = errCut
	synctest.Test(l.T, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour-time.Second, errTime)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if k.Look != nil {
				if proof, found, fault := k.Look(ctx, s); fault != nil || found {
					l.said, err = append(l.said, proof.Message), fault
					return
				}
			}
			proof, fault := k.Do(ctx, s)
			l.said, err = append(l.said, proof.Message), fault
		}()
		<-done
	})
	return err
}

var errCut, errTime = errors.New("the agent was killed"), errors.New("the time is over")

func (l *lab) join() error {
	l.Helper()
	secret, err := l.ask(l.Context(), taskcatalog.CredentialClusterJoin, "token")
	if err != nil {
		return err
	}
	return l.step("cluster.join", steps.Args{
		"cluster": "ray", "credential": steps.NewSecret(secret, nil), "environment": "/opt/ray/env", "labels": []string{"zone=a"},
	}, l.joined, "", "")
}

func (l *lab) verify() error {
	return l.step("cluster.verify", steps.Args{"cluster": "ray", "name": "train"}, &notes{}, taskcatalog.CredentialClusterMembership, "verify")
}

func (l *lab) leave() error {
	return l.step("cluster.leave", steps.Args{"cluster": "ray", "name": "train"}, &notes{}, taskcatalog.CredentialClusterLeave, "leave")
}

// left fails unless the node has left, and nothing of the cluster is on it.
func (l *lab) left(name string) {
	l.Helper()
	for _, n := range l.head.Nodes("gpu-7") {
		if n.Alive {
			l.Errorf("%s: the cluster has %+v", name, n)
		}
	}
	for _, file := range []string{"etc/ray/auth_token", "etc/systemd/system/hostler-ray.service", "etc/systemd/system/hostler-ray-drain@.service"} {
		if _, err := os.Lstat(filepath.Join(l.dir, file)); !errors.Is(err, os.ErrNotExist) {
			l.Errorf("%s: %s: %v", name, file, err)
		}
	}
	if l.systemd.On["hostler-ray.service"] || l.systemd.Enabled["hostler-ray.service"] {
		l.Errorf("%s: Ray runs", name)
	}
}

// A node is a member by what its steps put in place, leaves by them, and may come again.
func TestANodeJoinsAndLeavesByItsSteps(t *testing.T) {
	l := newLab(t)
	if err := l.verify(); taskcatalog.CodeOf(err, "") != steps.CodeNotMember {
		t.Errorf("before the join: %v", err)
	}
	for round := 1; round <= 2; round++ { // the first round leaves a dead node of the name
		if err := errors.Join(l.join(), l.verify()); err != nil {
			t.Fatal(err)
		}
		if all := l.head.Nodes("gpu-7"); len(all) != round || !all[round-1].Alive || all[round-1].Labels != "zone=a,hostler.dev/node=n-1" {
			t.Fatalf("the head has %+v", all)
		}
		if _, err := l.ask(t.Context(), taskcatalog.CredentialClusterJoin, "token"); broker.AsError(err).Code != "cluster_member_stale" {
			t.Errorf("a second join: %v", err)
		}
		if err := l.leave(); err != nil {
			t.Fatal(err)
		}
		l.left("after its leave")
		l.joined = &notes{}
	}
	told, err := json.Marshal([]any{l.said, l.systemd.Asked, l.head.Asked, l.joined})
	if err != nil || strings.Contains(string(told), "planted") {
		t.Errorf("the token is told: %s %v", told, err)
	}
}

// Work keeps the node a member until it ends, and gets no company.
func TestWorkIsNotCutOff(t *testing.T) {
	l := newLab(t)
	if err := l.join(); err != nil {
		t.Fatal(err)
	}
	l.head.SetWork("gpu-7", 2)
	if err := l.leave(); !errors.Is(err, errTime) || !strings.Contains(err.Error(), "has told it to give no further work") {
		t.Errorf("with work: %v", err)
	}
	if all := l.head.Nodes("gpu-7"); !all[0].Alive || !all[0].Draining || l.systemd.HasAsked("stop hostler-ray.service") {
		t.Errorf("the head has %+v, systemd was asked %q", all, l.systemd.Asked)
	}
	l.head.SetWork("gpu-7", 0)
	if err := l.leave(); err != nil {
		t.Fatal(err)
	}
	l.left("after its work")
}

// Whenever the agent is killed, a retry ends with one node, or with none.
func TestAKilledAgentEndsWhereItShould(t *testing.T) {
	for name, when := range map[string]func(unit string, done bool) bool{
		"before Ray starts": func(unit string, done bool) bool { return unit == "hostler-ray.service" && !done },
		"after Ray started": func(unit string, done bool) bool { return unit == "hostler-ray.service" && done },
		"before the drain":  func(unit string, done bool) bool { return strings.Contains(unit, "@") && !done },
		"after the drain":   func(unit string, done bool) bool { return strings.Contains(unit, "@") && done },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			killed := 0
			l.cut = func(unit string, done bool) {
				if killed == 0 && when(unit, done) {
					killed++
					runtime.Goexit()
				}
			}
			err := l.join()
			if err == errCut {
				err = l.join()
				if broker.AsError(err).Code == "cluster_member_stale" { // Ray had begun
					if err = l.leave(); err == nil {
						l.left("after a cut join")
						err = l.join()
					}
				}
			}
			if err = errors.Join(err, l.verify()); err != nil {
				t.Fatal(err)
			}
			if err = l.leave(); err == errCut {
				err = l.leave()
			}
			if err != nil || killed != 1 {
				t.Fatal(err, killed)
			}
			l.left("at the end")
		})
	}
}

// A second machine that took the node's name makes the cluster's word worthless.
func TestASecondNodeOfTheNameIsNotBelieved(t *testing.T) {
	l := newLab(t)
	if err := l.join(); err != nil {
		t.Fatal(err)
	}
	l.head.start("GPU-7", "") // Ray's filter knows no case
	if err := l.verify(); taskcatalog.CodeOf(err, "") != steps.CodeNotMember || !strings.Contains(err.Error(), "another node") {
		t.Errorf("another spelling: %v", err)
	}
	l.head.End("GPU-7")
	if err := l.verify(); err != nil {
		t.Error(err)
	}
	l.head.start("gpu-7", "")
	if err := l.verify(); taskcatalog.CodeOf(err, "") != steps.CodeNotMember || !strings.Contains(err.Error(), "several nodes") {
		t.Errorf("the same name: %v", err)
	}
	for _, asked := range l.systemd.Asked {
		if strings.Contains(asked, "drain") {
			t.Errorf("systemd was asked %q", l.systemd.Asked)
		}
	}
}
