package loopback

import (
	"net"
	"testing"
)

func TestAnAddressIsNobodys(t *testing.T) {
	given := map[string]bool{}
	for range 100 {
		a, err := Address()
		if err != nil || given[a] {
			t.Fatalf("%s again, or %v", a, err)
		}
		given[a] = true
	}
	for a := range given {
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Fatal(err)
		}
		if free(a) {
			t.Errorf("%s is somebody's", a)
		}
		_ = l.Close()
	}
	// A request for any free port gets another port.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if port := l.Addr().(*net.TCPAddr).Port; port < 32768 && given[l.Addr().String()] {
		t.Errorf("the kernel gives %d", port)
	}
}
