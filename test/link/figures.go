package main

import (
	"slices"
	"time"
)

// figures are the measured values.
type figures struct {
	Machine string // the guest's accelerator: kvm, or qemu for emulation
	SSH     string // version
	Loss    string // netem's settings of the two ends
	Keys    int
	Clean   pair[echo] // on the link without netem
	Bad     pair[echo]
	MBps    pair[float64] // 10⁶ bytes in a second, the median
}

type pair[T any] struct{ SSH, Hostler T }

// echo is in milliseconds.
type echo struct{ P50, P99, Most float64 }

func echoOf(took []time.Duration) echo {
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return echo{ms(quantile(took, 0.5)), ms(quantile(took, 0.99)), ms(took[len(took)-1])}
}
