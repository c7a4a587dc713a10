package fleet

import (
	"net"
	"testing"
)

// With replicas, a node's connections go to the replicas in turn, whatever the broker's address is.
func TestConnectionsGoToOneReplicaAfterTheOther(t *testing.T) {
	var at []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		at = append(at, l.Addr().String())
	}
	f := New(Site{Broker: "https://127.0.0.1:1", Replicas: at})
	n, got := newNode(f, 1, ""), map[string]int{}
	for range 6 {
		c, err := n.dial(t.Context(), "tcp", "127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		got[c.RemoteAddr().String()]++
		_ = c.Close()
	}
	for _, one := range at {
		if got[one] != 2 {
			t.Errorf("%d of six connections went to one of three replicas: %v", got[one], got)
		}
	}
}
