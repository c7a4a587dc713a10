//go:build e2e && e2e_all

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/selfupdate"
	"github.com/hostler/hostler/taskcatalog"
)

// BenchmarkFromACrashToTheOldVersion measures how long a node has no working agent after a new
// version crashes: from the first crash until the old version reports ready to systemd, both by the
// guest's clock. The watcher's own figure is printed beside it.
func BenchmarkFromACrashToTheOldVersion(b *testing.B) {
	shared.pool.Turn(b)
	ctx, cancel := context.WithTimeout(b.Context(), 40*time.Minute)
	defer cancel()
	s := &site{t: b, ctx: ctx, asked: new([]string)}
	s.open()
	s.restore(installed)
	s.enrol()
	first := strings.Fields(s.root("hostler-agent", "version"))[1]
	r := s.releases()
	var all []float64
	for b.Loop() {
		version := fmt.Sprintf("9.%d.0", len(all))
		r.fault(version, "cat /proc/uptime >> /root/crashed; exit 1")
		s.root("rm", "-f", "/root/crashed")
		got, res := r.update(version, 30*time.Second, func() {})
		if res.Outcome != taskcatalog.UpdateRolledBack || taskcatalog.Code(got.Code) != selfupdate.CodeCrashLoop {
			b.Fatalf("%+v %+v", got, res)
		}
		crashed, err := strconv.ParseFloat(strings.Fields(s.root("cat", "/root/crashed"))[0], 64)
		if err != nil {
			b.Fatal(err)
		}
		ready, err := strconv.ParseFloat(s.root("systemctl", "show", "-P", "ActiveEnterTimestampMonotonic", "hostler-agent"), 64)
		if err != nil {
			b.Fatal(err)
		}
		r.runs(first)
		all = append(all, ready/1e6-crashed)
		b.Logf("crashed, and %s was ready after %.1f s; the watcher says %.1f s", first, all[len(all)-1], res.SwitchSeconds)
	}
	slices.Sort(all)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(all[len(all)/2], "s-median")
	b.ReportMetric(all[len(all)-1], "s-most")
}
