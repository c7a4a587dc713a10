package onboarding_test

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/test/maassim"
)

// A host that has reported its hardware before the run looks for the first time, after a freeze,
// need not report again: MAAS's history tells when the machine became Deployed. Where the history
// does not tell, the host must report again, because MAAS's own write of last_sync is no report.
func TestAReportBeforeTheFirstLookCounts(t *testing.T) {
	const interval = 5 * time.Minute
	for _, version := range []string{"3.4", "3.6"} {
		for _, test := range []struct {
			name     string
			frozen   time.Duration // from before the machine is Deployed until after
			stops    time.Duration // reports, after Deployed
			history  string        // none, or of another zone or clock
			believed bool
		}{
			{name: "it has reported once, and never again", frozen: 7 * time.Minute, stops: interval + time.Second, believed: true},
			{name: "it has not reported", frozen: 4 * time.Minute, stops: time.Second},
			{name: "MAAS tells no history", frozen: 7 * time.Minute, stops: interval + time.Second, history: "none"},
			{name: "its history is of another clock", frozen: 4 * time.Minute, stops: time.Second, history: "another clock"},
			{name: "its history is of another zone", frozen: 4 * time.Minute, stops: time.Second, history: "another zone"},
		} {
			t.Run(version+"/"+test.name, func(t *testing.T) {
				w := newWorld(t, version)
				w.region.Timing = maassim.Usual.Faster(10)
				w.profile.Policy.HardwareSyncInterval = "5m"
				b := w.box(1)
				w.region.PlugIn(b)
				w.region.Inject(maassim.Fault{Kind: maassim.SyncStops, After: test.stops})
				switch test.history {
				case "none":
					w.region.Inject(maassim.Fault{Kind: maassim.Internal, Op: "events", Times: -1})
				case "another clock":
					times := regexp.MustCompile(`2026 \d\d:\d\d:\d\d`)
					w.guard = guardFunc(func(req *http.Request) (*http.Response, error) {
						res, err := w.region.RoundTripper().RoundTrip(req)
						if err == nil && strings.Contains(req.URL.Path, "/events/") {
							raw, _ := io.ReadAll(res.Body)
							res.Body = io.NopCloser(bytes.NewReader(times.ReplaceAllFunc(raw, func(b []byte) []byte {
								at, err := time.Parse("2006 15:04:05", string(b))
								if err != nil {
									t.Error(err)
								}
								return []byte(at.Add(-45 * time.Second).Format("2006 15:04:05"))
							})))
						}
						return res, err
					})
				case "another zone":
					w.guard = guardFunc(func(req *http.Request) (*http.Response, error) {
						res, err := w.region.RoundTripper().RoundTrip(req)
						if err == nil && strings.Contains(req.URL.Path, "/events/") {
							raw, _ := io.ReadAll(res.Body)
							res.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(raw, []byte("2026 12:"), []byte("2026 11:"))))
						}
						return res, err
					})
				}
				id := w.start(1)
				var thaw time.Time
				w.settle(func() {
					switch now := w.clock.Now(); {
					case thaw.IsZero() && w.machine(b.Serial).Status == maassim.Deploying:
						thaw = now.Add(test.frozen)
						if err := w.store.PlaceHold(ctx, ada, chain.SiteHold{Site: "dc1", Kind: chain.Freeze, Reason: "storm"}); err != nil {
							t.Fatal(err)
						}
					case !thaw.IsZero() && now.After(thaw):
						thaw = now.Add(24 * time.Hour)
						if err := w.store.LiftHold(ctx, ada, "dc1", chain.Freeze, "over"); err != nil {
							t.Fatal(err)
						}
					}
				})
				r, m := w.run(id), w.machine(b.Serial)
				seeded := w.book.Reseeds(w.node(hostname(1)).ID) > 0 || len(w.doors.calls) > 0
				if (r.Status == chain.Completed) != test.believed || seeded == test.believed {
					t.Errorf("run %s at %s: %+v; it was seeded anew: %v; baseline %v, last_sync %v", r.Status, r.Stage, r.Failure, seeded, stateOf(t, r).SyncBaseline, m.LastSync)
				}
			})
		}
	}
}
