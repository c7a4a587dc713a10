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
		Keeper: keeper,
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hostler_terminal_recorded_bytes_total",
			Help: "Bytes of terminal recordings that this broker stored.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "hostler_terminal_recording_failures_total",
			Help: "Recording blocks that this broker could not store at once; a session whose recording cannot be stored ends.",
		}),
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
		Name: "hostler_terminal_sessions", Help: "Terminal sessions at this broker's relay.",
	}, func() float64 { return float64(holds()) }))
}
