package adminapi_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// BenchmarkFleet measures what operators ask of a broker with 10,000 nodes, of which half are claimed: a
// list of 1,000 nodes with all columns, and an explanation of a request.
func BenchmarkFleet(b *testing.B) {
	for _, engine := range storetest.Engines {
		b.Run(engine, func(b *testing.B) {
			running := brokerOfManyNodes(b, engine)
			b.Run("list", func(b *testing.B) {
				for b.Loop() {
					if page := servertest.Must[api.NodeList](b, running, http.MethodGet, "/nodes?limit=1000", nil); len(page.Items) != 1000 {
						b.Fatalf("%d nodes", len(page.Items))
					}
				}
				b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/answer")
			})
			b.Run("explain", func(b *testing.B) {
				for b.Loop() {
					got := servertest.Must[api.AllocationExplanation](b, running, http.MethodGet, "/allocations/explain?sku=h100&nodes=8", nil)
					if got.Fit != 5000 || got.DoNotFit != 5000 {
						b.Fatalf("%+v", got)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/answer")
			})
		})
	}
}

// brokerOfManyNodes starts a broker over a database of 10,000 nodes that serve, of a SKU that is offered. The
// first half are claimed.
func brokerOfManyNodes(b *testing.B, engine string) *servertest.Broker {
	b.Helper()
	path, database := filepath.Join(b.TempDir(), "broker"), ""
	driver, source := "sqlite", "file:"+filepath.Join(path, "hostler.db")+"?_pragma=busy_timeout(10000)"
	if engine == "postgres" {
		database = storetest.DurablePostgresURL(b)
		driver, source = "pgx", database
	}
	dir, err := server.OpenDataDir(path)
	if err == nil {
		err = errors.Join(dir.MakeKeys(time.Now(), ""), dir.Close())
	}
	must(b, err)
	kept := storetest.Reopen(b, server.StoreURL(path, database), nil)
	admin, sku := broker.Actor{Name: "admin", Role: broker.RolePlatformAdmin}, broker.NewSKU()
	sku.ID = "h100"
	_, err = kept.CreateSKU(b.Context(), admin, sku)
	must(b, err)
	for i := range 10_000 {
		name := fmt.Sprintf("bench-%05d", i)
		_, err := kept.CreateNode(b.Context(), admin, store.NewNode{
			ID: "n-" + name, Hostname: name, Site: fmt.Sprintf("dc%d", i%4), SKU: sku.ID, Bootstrap: "command", TokenHash: "hash-" + name,
			TokenExpires: kept.Now().Add(time.Hour),
		})
		must(b, err)
	}
	db, err := sql.Open(driver, source)
	must(b, err)
	_, err = db.ExecContext(b.Context(), fmt.Sprintf("UPDATE nodes SET status = 'active', last_contact_at = %d", kept.Now().Add(time.Hour).UnixMicro()))
	must(b, err)
	_, err = db.ExecContext(b.Context(), `INSERT INTO allocation_claims (allocation_id, node_id, since, ended_at)
		SELECT 'before', id, 1, 0 FROM nodes WHERE id < 'n-bench-05000'`)
	must(b, errors.Join(err, db.Close()))
	_, err = kept.SweepAvailability(b.Context()) // the broker's own sweeps find nothing to write
	must(b, err)
	return servertest.Start(b, func(c *server.Config) { c.DataDir, c.Database = path, database })
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
