package hall

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "modernc.org/sqlite" // reads the broker's database

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/fleet"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
)

// BenchmarkOnboardings takes machines from their BMCs to active nodes, all ordered at once: the
// built broker (make build) on SQLite, in real time, against a region in this process over HTTP
// whose own actions take no time. The agents are nodes of a fleet. All three share the processors.
//
//   - onboardings/s, stages/s: completed, over the time from the first order to the last end.
//   - p50-s, p99-s: time of a run from its order to its end. A batch has a thousand machines, of which
//     500 run at a time, so that the later machines wait.
//   - broker-ms/run: processor time of the broker's process.
//   - rss-MB: the broker's resident memory at the end.
//   - db-kB/run: growth of the database.
//
// -short leaves out the ten thousand.
func BenchmarkOnboardings(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		if n > 1000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) {
			ctx, cancel := context.WithTimeout(b.Context(), 40*time.Minute)
			defer cancel()
			h, err := New(ctx, "../../../bin", 0, fleet.Script{}, "")
			must(b, err)
			defer func() { must(b, h.Close()) }()
			region := h.site(ctx, b)
			defer func() { must(b, region.Close()) }()
			h.onboard(ctx, b, region, n)
		})
	}
}

// batch is the maximum of machines per order, and parallel the number of machines that the site's
// policy lets run at a time.
const (
	batch    = 1000
	parallel = 500
)

// onboard orders machines, starts their agents, and reports the figures.
func (h *Hall) onboard(ctx context.Context, b *testing.B, region *lab.Region, n int) {
	b.Helper()
	had, before, begun := h.recorded(b), h.usage(b), time.Now()
	h.order(ctx, b, region, n)
	coming, stop := context.WithCancel(ctx)
	boots := make(chan error, 1)
	go func() { boots <- h.boot(coming, region) }()
	must(b, h.Lab.Wait(ctx, "all onboardings are over", func() error {
		count := h.statuses(b)
		if failed := count["failed_retryable"] + count["failed_manual_intervention"]; failed > 0 {
			b.Fatalf("%d onboardings failed: %v", failed, count)
		}
		if count["completed"] < n {
			return fmt.Errorf("they are %v", count)
		}
		return nil
	}))
	took := time.Since(begun).Seconds()
	stop()
	must(b, <-boots)
	after, now, times := h.usage(b), h.recorded(b), h.took(b)
	at := func(percent int) float64 { return times[(len(times)-1)*percent/100].Seconds() }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/took, "onboardings/s")
	b.ReportMetric(float64(now.stages-had.stages)/took, "stages/s")
	b.ReportMetric(at(50), "p50-s")
	b.ReportMetric(at(99), "p99-s")
	b.ReportMetric(float64((after.Processor-before.Processor).Milliseconds())/float64(n), "broker-ms/run")
	b.ReportMetric(float64(after.Resident)/1e6, "rss-MB")
	b.ReportMetric(float64(now.bytes-had.bytes)/float64(n)/1000, "db-kB/run")
}

// site makes a site of a region without machines.
func (h *Hall) site(ctx context.Context, b *testing.B) *lab.Region {
	b.Helper()
	region, err := lab.ServeRegion(&maassim.Region{
		Seed: 11, Timing: maassim.Usual.Faster(1e6), Networks: []maassim.Network{{VID: 46, CIDR: "10.16.0.0/14", Gateway: "10.16.0.1", DHCP: true}},
	})
	must(b, err)
	_, err = h.Operator.CreateSite(ctx, client.Document{
		"name": "dc1", "region_code": "eu-1", "api_base_url": region.At("127.0.0.1") + "/MAAS", "pxe_iface": "ens19", "pxe_vlan_vid": 46, "node_pxe_iface": "eno8303",
	})
	must(b, err)
	_, err = h.Operator.SetSiteCredentials(ctx, "dc1", api.SiteCredentials{MAASToken: region.APIKey(), PowerUser: "root", PowerPassword: bmcPassword})
	must(b, err)
	_, err = h.Operator.CreateSKU(ctx, client.Document{"id": "h100.8gpu", "nics": []string{"eno8303", "eno8403"}, "gpu_vendor": "nvidia", "gpu_model": "H100", "gpu_count": 8, "gpu_memory_bytes": int64(80) << 30})
	must(b, err)
	_, err = h.Operator.UpdateSiteProfile(ctx, "dc1", "default", client.Document{"require_hw_sync": false, "enable_phase2_roce": false, "batch_max_parallel": parallel})
	must(b, err)
	return region
}

const bmcPassword = "of-all-bmcs"

// order puts machines into the racks and has them onboarded.
func (h *Hall) order(ctx context.Context, b *testing.B, region *lab.Region, n int) {
	b.Helper()
	var machines []api.OnboardingMachine
	for i := range n {
		box := maassim.Box(i + 1)
		box.BMC.User, box.BMC.Password = "root", bmcPassword
		region.PlugIn(box)
		machines = append(machines, api.OnboardingMachine{Hostname: fmt.Sprintf("c%05d", i+1), IPMIIP: box.BMC.Address})
	}
	for some := range slices.Chunk(machines, batch) {
		_, err := h.Operator.StartOnboardingBatch(ctx, api.OnboardingBatch{SiteID: "dc1", SKUID: "h100.8gpu", Reason: "a new hall", Nodes: some})
		must(b, err)
	}
}

// boot starts the agents of deployed machines until ctx ends.
func (h *Hall) boot(ctx context.Context, region *lab.Region) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	up := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var come []fleet.Joining
		for _, m := range region.Machines() {
			if m.Status != maassim.Deployed || !m.HostUp || up[m.SystemID] {
				continue
			}
			up[m.SystemID] = true
			come = append(come, fleet.Joining{
				Token: lab.EnrollToken(m.UserData), Machine: fleet.Machine{Hostname: m.Hostname, SystemID: m.SystemID, Facts: servertest.H100s(8)},
			})
		}
		if len(come) == 0 {
			continue
		}
		if err := h.JoinMachines(come); err != nil {
			return err
		}
	}
}

// database opens the broker's SQLite database read-only, beside the broker.
func (h *Hall) database(b *testing.B, read func(*sql.DB) error) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(h.DataDir(), "hostler.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	must(b, err)
	defer func() { must(b, db.Close()) }()
	must(b, read(db))
}

// records are how many stages have ended, and how large the database is.
type records struct{ stages, bytes int64 }

func (h *Hall) recorded(b *testing.B) (r records) {
	b.Helper()
	h.database(b, func(db *sql.DB) error {
		return db.QueryRow(`SELECT (SELECT COUNT(*) FROM chain_events WHERE status <> 'started'),
			(SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size())`).Scan(&r.stages, &r.bytes)
	})
	return r
}

// statuses count the runs, by an index: this is asked again and again.
func (h *Hall) statuses(b *testing.B) map[string]int {
	b.Helper()
	count := map[string]int{}
	h.each(b, `SELECT status, COUNT(*) FROM chain_runs WHERE batch <> '' GROUP BY batch, status`, func(rows *sql.Rows) error {
		var status string
		var n int
		err := rows.Scan(&status, &n)
		count[status] += n
		return err
	})
	return count
}

// took are the times of all runs, the shortest first.
func (h *Hall) took(b *testing.B) (out []time.Duration) {
	b.Helper()
	h.each(b, `SELECT completed_at - requested_at FROM chain_runs ORDER BY 1`, func(rows *sql.Rows) error {
		var micros int64
		err := rows.Scan(&micros)
		out = append(out, time.Duration(micros)*time.Microsecond)
		return err
	})
	return out
}

// each reads rows.
func (h *Hall) each(b *testing.B, query string, row func(*sql.Rows) error) {
	b.Helper()
	h.database(b, func(db *sql.DB) error {
		rows, err := db.Query(query)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if err := row(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
