package store_test

import (
	"strings"
	"testing"

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
