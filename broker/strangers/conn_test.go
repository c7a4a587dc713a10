package strangers

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p pipes) dial() net.Conn {
	here, there := net.Pipe()
	p <- there
	return here
}

func TestAConnectionThatAsksForNothingIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ReadHeaderTimeout: time.Hour}
		room := NewRoom(Limits{Source: 10, All: 10}, NewKnown())
		admitted := room.Admit(server, l)
		go func() { _ = server.Serve(admitted) }()
		silent, asks := l.dial(), l.dial()
		begun := time.Now()
		if _, err := io.WriteString(asks, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if res, err := http.ReadResponse(bufio.NewReader(asks), nil); err != nil || res.StatusCode != http.StatusOK {
			t.Fatal(res, err)
		}
		_, err := io.ReadAll(silent)
		if took := time.Since(begun); err != nil || took != askWithin {
			t.Errorf("it was closed after %v (%v)", took, err)
		}
		_ = asks.SetReadDeadline(time.Now().Add(10 * askWithin))
		if _, err := asks.Read(make([]byte, 1)); err == io.EOF {
			t.Error("one that has asked is closed too")
		}
		_ = asks.Close()
		_ = silent.Close()
		synctest.Wait()
		if room.count != 0 {
			t.Errorf("%d are counted who have left", room.count)
		}
		close(l)
		_ = server.Close()
	})
}

// This room holds one guest at a time; the other guest is idle, and makes way.
func TestARequestThatIsCutMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		room := NewRoom(Limits{Source: 1, All: 1}, NewKnown())
		answers := make(chan error, 2)
		server := &http.Server{ReadHeaderTimeout: time.Hour, Handler: room.Requests(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 1<<20))
			answers <- err
		}), func(r *http.Request) bool { return r.Header.Get("Authorization") != "" })}
		go func() { _ = server.Serve(l) }()
		first, second, vouched := l.dial(), l.dial(), l.dial()
		ask := func(c net.Conn, header string) {
			if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n"+header+"\r\n"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		ask(vouched, "Authorization: Bearer x\r\n")
		ask(first, "")
		time.Sleep(time.Nanosecond)
		ask(second, "")
		if err := <-answers; err == nil {
			t.Error("the first answer went on")
		}
		go func() { _, _ = io.Copy(io.Discard, second) }()
		if err := <-answers; err != nil {
			t.Errorf("the second did not: %v", err)
		}
		for _, c := range []net.Conn{first, second, vouched} {
			_ = c.Close()
		}
		synctest.Wait()
		if room.count+room.leaving != 0 {
			t.Errorf("%d are counted who have left, and %d as leaving", room.count, room.leaving)
		}
		close(l)
		_ = server.Close()
	})
}
