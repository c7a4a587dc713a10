package server

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
	turnoverrecords "github.com/hostler/hostler/broker/turnover/records"
)

// turnovers are the figures of turnovers as metrics. The figures come from the records, so that
// they outlive a restart and are equal at every replica.
type turnovers struct {
	db *store.DB

	mu   sync.Mutex
	at   time.Time
	last turnoverrecords.Figures
}

const (
	figuresOf    = 7 * 24 * time.Hour
	figuresEvery = time.Minute // the figures change slowly, and several clients may scrape
)

var (
	stageSecondsDesc = prometheus.NewDesc("hostler_turnover_stage_seconds",
		"Mean duration of a stage per turnover, all attempts added up, over the last seven days.", []string{"mode", "stage"}, nil)
	lostDesc = prometheus.NewDesc("hostler_turnover_lost_gpu_hours",
		"GPU-hours of the last seven days in which nodes were out of use because of a turnover.", nil, nil)
	openDesc    = prometheus.NewDesc("hostler_turnover_open", "Nodes that are out of use because of a turnover.", nil, nil)
	slowestDesc = prometheus.NewDesc("hostler_turnover_slowest_seconds",
		"Node-seconds of the slowest tenth of turnovers of the last seven days, by each turnover's longest stage and its failure class.",
		[]string{"stage", "class"}, nil)
)

// Describe implements prometheus.Collector.
func (t *turnovers) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{stageSecondsDesc, lostDesc, openDesc, slowestDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector. If the store does not answer, these figures are missing
// but the scrape succeeds; hostler_store_up reports the failure.
func (t *turnovers) Collect(out chan<- prometheus.Metric) {
	f, err := t.figures()
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, s := range f.Stages {
		gauge(stageSecondsDesc, s.Total.Seconds()/float64(max(s.Runs, 1)), strings.TrimPrefix(s.Kind, turnover.KindPrefix+"/"), s.Stage)
	}
	lost, open := 0.0, 0
	for _, s := range f.Sites {
		lost += s.GPULost.Hours()
		open += s.Open
	}
	gauge(lostDesc, lost)
	gauge(openDesc, float64(open))
	for _, c := range f.Slowest {
		gauge(slowestDesc, c.Took.Seconds(), c.Stage, c.Class)
	}
}

func (t *turnovers) figures() (turnoverrecords.Figures, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.db.Now()
	if !t.at.IsZero() && now.Sub(t.at) < figuresEvery {
		return t.last, nil
	}
	ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	f, err := turnoverrecords.FiguresOf(ctx, t.db, nil, now.Add(-figuresOf), now)
	if err == nil {
		t.at, t.last = now, f
	}
	return f, err
}
