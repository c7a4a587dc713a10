package reconcile_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/test/maassim"
)

// BenchmarkReconcile5000 is one look at a site of 5,000 machines and 5,000 nodes without changes:
// MAAS's list is read and decoded, and every machine judged. MAAS's own time for its answer is not
// included.
func BenchmarkReconcile5000(b *testing.B) {
	for _, engine := range storetest.Engines {
		b.Run(engine, func(b *testing.B) {
			clock := storetest.NewClock()
			w := newWorld(b, storetest.Open(b, engine, clock.Now), clock)
			bigFleet(b, w, 5000)
			w.twice()
			b.ReportAllocs()
			for b.Loop() {
				clock.Advance(2 * time.Second)
				w.look()
			}
			b.StopTimer()
			looks, err := w.db.ReconcileLooks(b.Context(), nil)
			w.ok(err)
			if looks[0].Nodes != 5000 || looks[0].Machines != 5000 || looks[0].Unmanaged != 0 || looks[0].Trouble != "" {
				b.Fatalf("%+v", looks[0])
			}
		})
	}
}

// bigFleet binds nodes to machines that MAAS lists, each a copy of a machine of the simulator with
// another id, name and address.
func bigFleet(b *testing.B, w *world, many int) {
	b.Helper()
	id := w.region.Arrange(maassim.Arranged{Hostname: "pattern", Hardware: maassim.Box(1), Status: maassim.Deployed, Owner: "admin", Series: "ubuntu/noble", PowerOn: true, HWSync: true})
	var one json.RawMessage
	w.lists(func(all []json.RawMessage) []json.RawMessage { one = all[0]; return all })
	w.twice()
	m, _ := w.region.Machine(id)
	list := make([]json.RawMessage, many)
	for i := range list {
		n := fmt.Sprintf("n-%04d", i)
		systemID := fmt.Sprintf("b%05d", i)
		copied := bytes.ReplaceAll(one, []byte(id), []byte(systemID))
		copied = bytes.ReplaceAll(copied, []byte(m.Addresses[0]), fmt.Appendf(nil, "10.20.%d.%d", i>>8, i&0xff))
		list[i] = bytes.ReplaceAll(copied, []byte(`"workload_annotations":{}`), fmt.Appendf(nil, `"workload_annotations":{"hostler-node":%q}`, n))
		_, err := w.db.CreateNode(b.Context(), ada, store.NewNode{ID: n, Hostname: "gpu-" + n, Site: "dc1", MAASSystemID: systemID})
		w.ok(err)
		for _, to := range []broker.NodeStatus{broker.Enrolling, broker.Active} {
			_, err = w.db.Transition(b.Context(), ada, n, store.Change{To: to, By: broker.OwnerOnboarding})
			w.ok(err)
		}
	}
	raw, err := json.Marshal(list)
	w.ok(err)
	b.Logf("MAAS answers %d bytes", len(raw))
	w.guard = func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(raw)), Request: req}, nil
	}
}
