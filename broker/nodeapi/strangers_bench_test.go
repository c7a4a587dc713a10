package nodeapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog/wire"
)

// sending counts the bytes that a connection sends.
type sending struct {
	net.Conn
	sent *atomic.Int64
}

func (c sending) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

// BenchmarkStrangersAtTheDoor has strangers ask without end from 200 networks, each over its own
// connection. It reports the bytes sent, the rows left, and the time of a node's own request with
// and without them.
func BenchmarkStrangersAtTheDoor(b *testing.B) {
	s := newBroker(b)
	n := s.member()
	n.header = http.Header{wire.HeaderPrefer: {wire.PreferNoWait}, wire.HeaderInstance: {strings.Repeat("0", 32)}}
	honest := func(while func() bool) (took []time.Duration) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for len(took) < nodeBurst/3 && while() {
			begun := time.Now()
			if a := n.get(n.path("/tasks/wait?lanes=")); a.status/100 != 2 {
				b.Fatalf("the node is answered %d %s", a.status, a.body)
			}
			took = append(took, time.Since(begun))
			<-tick.C
		}
		slices.Sort(took)
		return took
	}
	alone := honest(func() bool { return true })
	var sent, asked atomic.Int64
	had := s.auditRows()
	b.ResetTimer()
	var group sync.WaitGroup
	left := atomic.Int64{}
	left.Store(int64(b.N))
	for worker := range 4 {
		group.Go(func() {
			for i := worker; left.Add(-1) >= 0; i += 4 {
				from := &net.TCPAddr{IP: net.IPv4(127, byte(1+i/200%50), byte(i%200), 9)}
				client := &http.Client{Transport: &http.Transport{
					DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a stranger
					DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := (&net.Dialer{LocalAddr: from}).DialContext(ctx, network, addr)
						return sending{conn, &sent}, err
					},
				}}
				res, err := client.Post(fmt.Sprintf("https://%s/internal/v1/nodes/enroll", s.addr), "application/json", strings.NewReader(`{}`))
				if err == nil {
					_ = res.Body.Close()
					asked.Add(1)
				}
			}
		})
	}
	beside := honest(func() bool { return left.Load() > 0 })
	group.Wait()
	b.StopTimer()
	must0(b, s.db.FlushStrangers(b.Context()))
	s.advance(store.StrangersEvery)
	must0(b, s.db.SummariseStrangers(b.Context()))
	b.ReportMetric(float64(sent.Load()), "bytes-sent")
	b.ReportMetric(float64(asked.Load()), "answered")
	b.ReportMetric(float64(s.auditRows()-had), "rows")
	tell := func(took []time.Duration, unit string) {
		if len(took) > 0 {
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, unit+"-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, unit+"-most-ms")
		}
	}
	tell(alone, "node-alone")
	tell(beside, "node-beside")
}
