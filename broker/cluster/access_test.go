package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
)

type keeper map[string][]byte

func (k keeper) Get(_ context.Context, path string) ([]byte, error) {
	if v, ok := k[path]; ok {
		return append([]byte(nil), v...), nil
	}
	return nil, broker.Errorf(broker.NotFound, "secret_not_found", "no secret")
}

func (k keeper) Put(_ context.Context, path string, value []byte) error {
	k[path] = append([]byte(nil), value...)
	return nil
}

func TestSecretsAreOfTheirRecordAlone(t *testing.T) {
	c := broker.Cluster{
		Name: "lab", Backend: "slurm", URL: "https://slurm.example", Controller: "ctl:6817", JoinAuth: "slurm", Generation: "g",
		VaultPath: broker.ClusterPath("lab"),
	}
	for name, row := range map[string]struct {
		code   string
		broken func(k keeper, c *broker.Cluster)
	}{
		"as they were set":            {"", func(keeper, *broker.Cluster) {}},
		"without the secrets":         {"cluster_secret_missing", func(k keeper, _ *broker.Cluster) { clear(k) }},
		"with something else":         {"secret_unreadable", func(k keeper, c *broker.Cluster) { k[c.VaultPath] = []byte("planted") }},
		"with an older record":        {"cluster_unfinished", func(_ keeper, c *broker.Cluster) { c.Generation = "f" }},
		"with another URL":            {"cluster_unfinished", func(_ keeper, c *broker.Cluster) { c.URL = "https://evil.example" }},
		"with another project":        {"cluster_unfinished", func(_ keeper, c *broker.Cluster) { c.ProjectID = "p-2" }},
		"with another controller":     {"cluster_unfinished", func(_ keeper, c *broker.Cluster) { c.Controller = "evil:6817" }},
		"with another authentication": {"cluster_unfinished", func(_ keeper, c *broker.Cluster) { c.JoinAuth = "munge" }},
	} {
		k, c := keeper{}, c
		if err := Put(t.Context(), k, c, Access{Token: "planted-token", JoinSecret: []byte("planted-key")}); err != nil {
			t.Fatal(err)
		}
		row.broken(k, &c)
		got, err := AccessOf(t.Context(), k, c)
		if row.code == "" && (err != nil || got.Token != "planted-token" || string(got.JoinSecret) != "planted-key") {
			t.Errorf("%s: %v %v", name, got, err)
		}
		if row.code != "" && (err == nil || broker.AsError(err).Code != row.code || got.Token != "" || strings.Contains(err.Error(), "planted")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := errors.New("sealed")
	if _, err := AccessOf(t.Context(), failing{broken}, c); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Get(context.Context, string) ([]byte, error) { return nil, f.err }
func (f failing) Put(context.Context, string, []byte) error   { return f.err }
