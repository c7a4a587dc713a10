package cluster

import (
	"context"
	"encoding/json"

	"github.com/hostler/hostler/broker"
)

// Keeper stores secrets by path.
type Keeper interface {
	Get(ctx context.Context, path string) ([]byte, error)
	Put(ctx context.Context, path string, value []byte) error
}

// Access is what the broker and the nodes authenticate to a cluster with.
type Access struct {
	Token      string // of the cluster's API
	JoinSecret []byte // of the nodes; nil: no node can join
}

// stored is the stored secret, bound to the record that it was set with. So a changed record sends the
// token nowhere else.
type stored struct {
	Backend    string `json:"backend"`
	URL        string `json:"url"`
	Project    string `json:"project"`
	Controller string `json:"controller"`
	JoinAuth   string `json:"join_auth"`
	Generation string `json:"generation"`
	Token      string `json:"token"`
	JoinSecret []byte `json:"join_secret,omitempty"`
}

func bound(c broker.Cluster) stored {
	return stored{
		Backend: c.Backend, URL: c.URL, Project: c.ProjectID, Controller: c.Controller, JoinAuth: c.JoinAuth, Generation: c.Generation,
	}
}

// Put stores a cluster's secrets at its record's path.
func Put(ctx context.Context, keeper Keeper, c broker.Cluster, a Access) error {
	s := bound(c)
	s.Token, s.JoinSecret = a.Token, a.JoinSecret
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	defer clear(raw)
	return keeper.Put(ctx, c.VaultPath, raw)
}

// AccessOf reads the secrets of a record. Errors never repeat them. Codes: cluster_secret_missing,
// cluster_unfinished, secret_unreadable, and those of the keeper.
func AccessOf(ctx context.Context, keeper Keeper, c broker.Cluster) (Access, error) {
	refuse := func(code, why string) (Access, error) {
		return Access{}, broker.Errorf(broker.Refused, code, "cannot use cluster %s: %s (set it again: hostler help cluster set)", c.Name, why)
	}
	raw, err := keeper.Get(ctx, c.VaultPath)
	switch {
	case err != nil && broker.AsError(err).Kind == broker.NotFound:
		return refuse("cluster_secret_missing", "its secrets are missing in the secret store")
	case err != nil:
		return Access{}, err
	}
	defer clear(raw)
	var s stored
	if json.Unmarshal(raw, &s) != nil || s.Token == "" {
		return refuse("secret_unreadable", "the format of its secrets is not that of hostler cluster set")
	}
	a := Access{Token: s.Token, JoinSecret: s.JoinSecret}
	s.Token, s.JoinSecret = "", nil
	want := bound(c)
	if s.Backend != want.Backend || s.URL != want.URL || s.Project != want.Project || s.Controller != want.Controller ||
		s.JoinAuth != want.JoinAuth || s.Generation != want.Generation {
		return refuse("cluster_unfinished",
			"the record and the stored secrets do not belong together (the broker may have stopped between the two writes)")
	}
	return a, nil
}
