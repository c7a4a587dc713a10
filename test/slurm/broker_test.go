package slurm

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/cluster"
	adapter "github.com/hostler/hostler/broker/cluster/slurm"
	"github.com/hostler/hostler/taskcatalog"
)

// asked is the part of a broker that answers the step cluster.leave of one operation.
type asked struct {
	record  broker.Cluster
	secrets map[string][]byte
}

func newBroker(t *testing.T, record broker.Cluster, access cluster.Access) *asked {
	t.Helper()
	b := &asked{record, map[string][]byte{}}
	if err := cluster.Put(t.Context(), b, record, access); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *asked) Get(_ context.Context, path string) ([]byte, error) {
	return append([]byte(nil), b.secrets[path]...), nil
}

func (b *asked) Put(_ context.Context, path string, value []byte) error {
	b.secrets[path] = append([]byte(nil), value...)
	return nil
}

func (b *asked) Cluster(context.Context, string) (broker.Cluster, error) { return b.record, nil }

func (b *asked) Node(_ context.Context, id string) (broker.Node, error) {
	return broker.Node{ID: id, Hostname: "gpu-7.dc1.example"}, nil
}

func (b *asked) MemberNameTaken(context.Context, string, string) (bool, error) { return false, nil }

// ask is what the node's step asks.
func (b *asked) ask(ctx context.Context) ([]byte, error) {
	answers := &cluster.Steps{
		Records: b, Secrets: b, Now: time.Now,
		Signed: func(raw []byte) (*taskcatalog.Task, error) {
			return &taskcatalog.Task{TaskID: "t-1", NodeID: "n-1", NodeEpoch: 1, Type: "operation.run", Params: raw}, nil
		},
		Backends: map[string]func(broker.Cluster, cluster.Access) cluster.Adapter{broker.ClusterSlurm: adapter.New},
	}
	task := broker.Task{
		ID: "t-1", NodeID: "n-1", NodeEpoch: 1, Type: "operation.run",
		Envelope: []byte(`{"operation_id":"op-1","operation":"slurm.node.leave@v1","steps":[{"id":"leave","kind":"cluster.leave","with":{"cluster":"slurm","name":"lab"}}]}`),
	}
	minted, err := answers.Of(ctx, task, taskcatalog.CredentialClusterLeave, "leave")
	return []byte(minted.Secret), err
}

// leave asks once, and returns what the node is told.
func (b *asked) leave(t *testing.T) (is taskcatalog.ClusterMembership) {
	t.Helper()
	answer, err := b.ask(t.Context())
	if err == nil {
		err = json.Unmarshal(answer, &is)
	}
	if err != nil {
		t.Fatal(err)
	}
	return is
}
