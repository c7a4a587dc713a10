package bodies

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// once is a listener of one connection.
type once struct{ conns chan net.Conn }

func (l *once) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *once) Close() error   { return nil }
func (l *once) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// overHTTP1 sends a request unchanged, and returns the status of the answer and the time until the
// answer, by the clock of the synctest bubble.
func overHTTP1(t *testing.T, handler http.HandlerFunc, request string) (status int, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		l := &once{conns: make(chan net.Conn, 1)}
		l.conns <- there
		server := &http.Server{Handler: InTime(handler), ReadHeaderTimeout: time.Second}
		go func() { _ = server.Serve(l) }()
		begun := time.Now()
		if _, err := io.WriteString(here, request); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(here), nil)
		if err != nil {
			t.Fatal(err)
		}
		status, took = res.StatusCode, time.Since(begun)
		_ = here.Close()
		close(l.conns)
		_ = server.Close()
	})
	return status, took
}

// waits answers 200 after 50 s, or 500 if the request ends before.
func waits(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	select {
	case <-time.After(50 * time.Second):
	case <-r.Context().Done():
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func TestARequestThatWaitsOutlivesTheTimeOfABody(t *testing.T) {
	const body = `{"reason":"r"}`
	for name, request := range map[string]string{
		"without a body": "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"with one":       fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
	} {
		if status, took := overHTTP1(t, waits, request); status != http.StatusOK || took < 50*time.Second {
			t.Errorf("%s: answered %d after %v", name, status, took)
		}
	}
}

func TestABodyThatDoesNotComeIsGivenUp(t *testing.T) {
	refuses := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	reads := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
		}
	}
	for name, row := range map[string]struct {
		handler http.HandlerFunc
		want    int
	}{
		"a handler that reads it":           {reads, http.StatusRequestTimeout},
		"one that answers before it has it": {refuses, http.StatusUnauthorized},
	} {
		status, took := overHTTP1(t, row.handler, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"+strings.Repeat("x", 10))
		if status != row.want || took > Time+time.Second {
			t.Errorf("%s: answered %d after %v", name, status, took)
		}
	}
}
