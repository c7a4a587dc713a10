package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestAClusterHasOneRecord(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		_, err := db.Cluster(ctx, "lab")
		refused(t, err, "cluster_not_found")
		c := broker.Cluster{
			Name: "lab", Backend: "slurm", URL: "https://one.example", CACert: "pem", ProjectID: "p-1", Controller: "ctl:6817", JoinAuth: "munge",
			Generation: "g-1", VaultPath: "sites/1/api-token", Reason: "first",
		}
		first := must(db.PutCluster(ctx, admin, c))(t)
		want := c
		want.VaultPath, want.SetBy, want.SetAt = broker.ClusterPath("lab"), "ada", first.SetAt
		if first != want || !first.SetAt.Equal(clock.Now()) {
			t.Errorf("%+v, want %+v", first, want)
		}
		c = broker.Cluster{Name: "lab", Backend: "slurm", URL: "https://two.example", Generation: "g-2", Reason: "moved"}
		second := must(db.PutCluster(ctx, admin, c))(t)
		must(db.PutCluster(ctx, admin, broker.Cluster{Name: "edge"}))(t)
		if got := must(db.Clusters(ctx))(t); len(got) != 2 || got[1] != second || second.JoinAuth+second.ProjectID+second.CACert+second.Controller != "" || second.Generation != "g-2" {
			t.Errorf("%+v", got)
		}
		if had := must(db.RemoveCluster(ctx, admin, "lab", "over"))(t); had != second {
			t.Errorf("%+v", had)
		}
		_, err = db.RemoveCluster(ctx, admin, "lab", "over")
		refused(t, err, "cluster_not_found")
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "cluster/lab", Newest: true}))(t)
		if len(rows) != 3 || rows[0].Reason != "over" || !strings.Contains(string(rows[1].Before), "one.example") || !strings.Contains(string(rows[1].After), "two.example") {
			t.Errorf("%+v", rows)
		}
	})
}

func TestANameInClustersIsOfOneNode(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		node := func(id, hostname, site string) {
			t.Helper()
			must(db.CreateNode(ctx, admin, store.NewNode{
				ID: id, Hostname: hostname, Site: site, Bootstrap: "command", TokenHash: "hash-" + id, TokenExpires: db.Now().Add(time.Hour),
			}))(t)
		}
		node("n-1", "gpu-01.a", "dc1")
		node("n-2", "gpu-010", "dc1")
		node("n-3", "gpu-0", "dc1")
		node("n-4", "a.gpu-01", "dc1")
		if must(db.MemberNameTaken(ctx, "n-1", "gpu-01"))(t) {
			t.Error("a node has its name from itself, or from a longer or a shorter one")
		}
		for id, hostname := range map[string]string{"n-5": "gpu-01", "n-6": "gpu-01.b", "n-7": "GPU-01.c"} {
			node(id, hostname, "dc2")
			if !must(db.MemberNameTaken(ctx, "n-1", "gpu-01"))(t) || !must(db.MemberNameTaken(ctx, id, "gpu-01"))(t) {
				t.Errorf("%s has a name of its own", hostname)
			}
			must(db.Transition(ctx, admin, id, store.Change{To: broker.Deleted, By: broker.OwnerRemoval}))(t)
			if must(db.MemberNameTaken(ctx, "n-1", "gpu-01"))(t) {
				t.Errorf("the deleted %s has the name", hostname)
			}
		}
	})
}
