package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// figures are what was measured.
type figures struct {
	Machine string // how the guest is run: kvm, or qemu, which emulates
	SSH     string // version
	Loss    string // what netem says of the two ends
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

// table is the figures for people.
func (f *figures) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d keys of each\n%s\n", f.Machine, f.SSH, f.Keys, f.Loss)
	fmt.Fprintf(&b, "%-34s %10s %10s %8s\n", "", "ssh", "hostler", "ratio")
	line := func(what string, ssh, hostler float64) {
		fmt.Fprintf(&b, "%-34s %10.1f %10.1f %8.2f\n", what, ssh, hostler, hostler/ssh)
	}
	for _, l := range []struct {
		link string
		pair[echo]
	}{{"clean link", f.Clean}, {"200 ms, 5 % loss each way", f.Bad}} {
		line(l.link+", p50, ms", l.SSH.P50, l.Hostler.P50)
		line(l.link+", p99, ms", l.SSH.P99, l.Hostler.P99)
		line(l.link+", most, ms", l.SSH.Most, l.Hostler.Most)
	}
	line("clean link, output, MB/s", f.MBps.SSH, f.MBps.Hostler)
	return b.String()
}
