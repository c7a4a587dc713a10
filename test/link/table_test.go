//go:build e2e

package main

import (
	"fmt"
	"strings"
)

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
