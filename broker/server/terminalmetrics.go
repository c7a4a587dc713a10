package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hostler/hostler/broker/recording"
)

// recordings counts the stored bytes of recordings and the failures to store.
type recordings struct {
	recording.Keeper
	bytes, failures prometheus.Counter
}

// countRecordings wraps a keeper with counters.
func (m *metrics) countRecordings(keeper recording.Keeper) recording.Keeper {
	k := &recordings{
		Keeper:   keeper,
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "hostler_terminal_recorded_bytes_total", Help: "Bytes of recordings of terminal sessions that this broker has kept."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "hostler_terminal_recording_failures_total", Help: "Blocks of recordings that this broker could not keep at once; a session whose recording cannot be kept ends."}),
	}
	m.registry.MustRegister(k.bytes, k.failures)
	return k
}

// Keep implements recording.Keeper.
func (k *recordings) Keep(ctx context.Context, b recording.Block) error {
	err := k.Keeper.Keep(ctx, b)
	if err != nil {
		k.failures.Inc()
		return err
	}
	k.bytes.Add(float64(len(b.Lines)))
	return nil
}

// countTerminals registers the gauge of this broker's sessions.
func (m *metrics) countTerminals(holds func() int) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "hostler_terminal_sessions", Help: "Terminal sessions that this broker's relay has.",
	}, func() float64 { return float64(holds()) }))
}
