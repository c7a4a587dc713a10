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
	maintenancesOverdueDesc = prometheus.NewDesc("hostler_maintenances_overdue", "Maintenances that are open although their expected end has passed.",
		nil, nil)
	replacementsDesc = prometheus.NewDesc("hostler_replacements_due",
		"Kinds of parts of nodes that were repaired so often that the policy asks for another machine.", nil, nil)
)

// mostReplacements bounds the count of a scrape.
const mostReplacements = 1000

// Describe implements prometheus.Collector.
func (m *maintenances) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{maintenancesDesc, maintenancesOverdueDesc, replacementsDesc} {
		out <- d
	}
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
	out <- prometheus.MustNewConstMetric(maintenancesOverdueDesc, prometheus.GaugeValue, float64(overdue))
	if due, err := m.db.ReplacementsDue(ctx, nil, mostReplacements); err == nil {
		out <- prometheus.MustNewConstMetric(replacementsDesc, prometheus.GaugeValue, float64(len(due)))
	}
}
