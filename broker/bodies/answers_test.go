package bodies

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

const (
	http1Get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	// SETTINGS with a window of zero bytes, and a GET.
	http2Get = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
		"\x00\x00\x06\x04\x00\x00\x00\x00\x00" + "\x00\x04\x00\x00\x00\x00" +
		"\x00\x00\x06\x01\x05\x00\x00\x00\x01" + "\x82\x86\x84\x41\x01h"
)

// serve sends a request over a pipe to a server with the handler, and returns the client's end.
func serve(handler http.HandlerFunc, request string) (client net.Conn, stop func()) {
	here, there := net.Pipe()
	l := &once{conns: make(chan net.Conn, 1)}
	l.conns <- there
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: InTime(handler), Protocols: both, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }()
	go func() { _, _ = io.WriteString(here, request) }()
	return here, func() {
		_ = here.Close()
		close(l.conns)
		_ = server.Close()
	}
}

// read reads everything, so that an HTTP/2 connection proceeds, but enlarges no HTTP/2 window.
func read(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func TestAnAnswerThatIsNotTakenEnds(t *testing.T) {
	for name, row := range map[string]struct {
		request string
		client  func(net.Conn)
	}{
		"HTTP/1.1": {http1Get, func(net.Conn) {}},
		"HTTP/2":   {http2Get, read},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				client, stop := serve(func(w http.ResponseWriter, _ *http.Request) {
					_, err := w.Write(make([]byte, 1<<20))
					ended <- err
				}, row.request)
				defer stop()
				begun := time.Now()
				go row.client(client)
				select {
				case err := <-ended:
					if took := time.Since(begun); err == nil || took != Take {
						t.Errorf("it ended after %v with %v", took, err)
					}
				case <-time.After(time.Hour):
					t.Error("the handler writes for an hour")
				}
			})
		})
	}
}

// Bytes that the server sends after the handler of a small answer have a time limit, too.
func TestASmallAnswerThatIsNotTakenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, stop := serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, http2Get)
		defer stop()
		begun := time.Now()
		_ = client.SetReadDeadline(begun.Add(time.Hour))
		for {
			var head [9]byte
			if _, err := io.ReadFull(client, head[:]); err != nil {
				t.Fatalf("the stream was not reset: %v", err)
			}
			if head[3] == 3 { // RST_STREAM
				break
			}
			_, _ = io.CopyN(io.Discard, client, int64(binary.BigEndian.Uint32(head[:4])>>8))
		}
		if took := time.Since(begun); took != Take {
			t.Errorf("it ended after %v", took)
		}
	})
}

func TestAnAnswerMayTakeLongWhileItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		client, stop := serve(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 10*piece))
			ended <- err
		}, http1Get)
		defer stop()
		go func() {
			for buf := make([]byte, piece); ; time.Sleep(Take / 2) {
				if _, err := io.ReadFull(client, buf); err != nil {
					return
				}
			}
		}()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Over HTTP/2 an expired deadline ends an answer even if nothing is being written.
func TestAnAnswerMayPauseBetweenPieces(t *testing.T) {
	for name, request := range map[string]string{"HTTP/1.1": http1Get, "HTTP/2": http2Get} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				client, stop := serve(func(w http.ResponseWriter, r *http.Request) {
					control := http.NewResponseController(w)
					w.WriteHeader(http.StatusOK)
					err := control.Flush()
					if err == nil {
						select {
						case <-time.After(10 * Take):
						case <-r.Context().Done():
							err = r.Context().Err()
						}
					}
					ended <- err
				}, request)
				defer stop()
				go read(client)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A write deadline set by the handler stays in force until the handler clears it.
func TestAHandlersOwnDeadlineStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := make(chan time.Duration, 1)
		client, stop := serve(func(w http.ResponseWriter, _ *http.Request) {
			begun := time.Now()
			_ = http.NewResponseController(w).SetWriteDeadline(begun.Add(time.Second))
			_, _ = w.Write(make([]byte, 1<<20))
			took <- time.Since(begun)
		}, http1Get)
		defer stop()
		_ = client
		if d := <-took; d != time.Second {
			t.Errorf("it ended after %v", d)
		}
	})
}
