package lab

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/hostler/hostler/test/maassim"
)

// Region is a simulated MAAS region on this machine's loopback. Its own actions happen on time,
// even if no call comes.
type Region struct {
	*maassim.Region
	port   string
	server *http.Server
	stop   context.CancelFunc
}

// tick is the maximum delay of the region's own actions.
const tick = 100 * time.Millisecond

// ServeRegion serves a region with its door until Close.
func ServeRegion(r *maassim.Region) (*Region, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.Handle("/", r)
	mux.Handle(maassim.DoorPath, r.Door())
	out := &Region{Region: r, port: port, server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, stop: stop}
	go func() { _ = out.server.Serve(l) }()
	go func() {
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-clock.C:
				r.Tick()
			}
		}
	}()
	return out, nil
}

// At is the region's URL for a client that reaches this machine as host: 127.0.0.1, or the guests'
// name for this machine.
func (r *Region) At(host string) string { return "http://" + net.JoinHostPort(host, r.port) }

// Close ends the region; its state can still be read.
func (r *Region) Close() error {
	r.stop()
	return r.server.Close()
}
