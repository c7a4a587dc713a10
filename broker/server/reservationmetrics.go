package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/broker/availability"
	"github.com/hostler/hostler/broker/store"
)

// reservations counts the reservations that lack nodes, at each scrape.
type reservations struct{ db *store.DB }

var shortDesc = prometheus.NewDesc("hostler_reservations_short",
	"Reservations in force for which fewer nodes are held by the project or free than are reserved.", nil, nil)

// Describe implements prometheus.Collector.
func (r *reservations) Describe(out chan<- *prometheus.Desc) { out <- shortDesc }

// Collect implements prometheus.Collector. If the store does not answer, the count is missing but the
// scrape succeeds; hostler_store_up reports the failure.
func (r *reservations) Collect(out chan<- prometheus.Metric) {
	ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	kept, err := availability.KeptNodes(ctx, r.db, "")
	if err != nil {
		return
	}
	short := 0
	for _, k := range kept {
		for _, one := range k.Reservations {
			if one.Missing() > 0 {
				short++
			}
		}
	}
	out <- prometheus.MustNewConstMetric(shortDesc, prometheus.GaugeValue, float64(short))
}
