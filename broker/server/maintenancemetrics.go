package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// maintenances counts maintenances at each scrape.
type maintenances struct{ db *store.DB }

var (
	maintenancesDesc = prometheus.NewDesc("hostler_maintenances", "Maintenances of nodes that are planned or open.",
		[]string{"status"}, nil)
	overdueDesc = prometheus.NewDesc("hostler_maintenances_overdue", "Maintenances that are open although their expected end has passed.",
		nil, nil)
)

// Describe implements prometheus.Collector.
func (m *maintenances) Describe(out chan<- *prometheus.Desc) {
	out <- maintenancesDesc
	out <- overdueDesc
}

// Collect implements prometheus.Collector. If the store does not answer, the counts are missing but the
// scrape succeeds; hostler_store_up reports the failure.
func (m *maintenances) Collect(out chan<- prometheus.Metric) {
	ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	counts, err := m.db.CountMaintenances(ctx)
	if err != nil {
		return
	}
	for _, s := range []broker.MaintenanceStatus{broker.MaintenancePlanned, broker.MaintenanceOpen} {
		out <- prometheus.MustNewConstMetric(maintenancesDesc, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
	late, err := m.db.OverdueMaintenances(ctx, nil)
	if err != nil {
		return
	}
	overdue := 0
	for _, o := range late {
		overdue += o.Maintenances
	}
	out <- prometheus.MustNewConstMetric(overdueDesc, prometheus.GaugeValue, float64(overdue))
}
