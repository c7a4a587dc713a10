package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store/storetest"
)

// way is the path to a PostgreSQL, which a test can cut.
type way struct {
	net.Listener
	to string // socket of the server

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{Listener: listener, to: to, conns: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close(); w.set(true) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go w.carry(conn)
		}
	}()
	return w
}

func (w *way) carry(near net.Conn) {
	far, err := net.Dial("unix", w.to)
	if err != nil {
		_ = near.Close()
		return
	}
	if !w.keep(near, far) {
		return
	}
	go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	_, _ = io.Copy(near, far)
	_ = near.Close()
}

func (w *way) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
		if w.cut {
			_ = c.Close()
		}
	}
	return !w.cut
}

// set cuts the path, or opens it again.
func (w *way) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	for c := range w.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// TestALostDatabaseIsARefusalAndNoRestart cuts a broker's path to PostgreSQL. Operators and nodes
// get an error with the time to come again, and waiting polls keep waiting. Afterwards nothing
// needs a restart, and systemd is not told otherwise meanwhile.
func TestALostDatabaseIsARefusalAndNoRestart(t *testing.T) {
	at, err := url.Parse(storetest.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	w := newWay(t, filepath.Join(q.Get("host"), ".s.PGSQL.5432"))
	host, port, _ := net.SplitHostPort(w.Addr().String())
	q.Set("host", host)
	q.Set("port", port)
	at.RawQuery = q.Encode()
	var turns atomic.Int64
	b := servertest.Start(t, func(c *server.Config) {
		c.Database = at.String()
		c.Watchdog = 20 * time.Millisecond
		c.Notify = func(state string) {
			if state == "WATCHDOG=1" {
				turns.Add(1)
			}
		}
		dir, err := server.OpenDataDir(c.DataDir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(dir.MakeKeys(servertest.Clock(), ""), dir.Close()); err != nil {
			t.Fatal(err)
		}
	})
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	before := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	waits := b.NewNode(t, api.NodeCreate{Hostname: "h2"}).Settle(t)
	answered := make(chan string, 1)
	go func() {
		status, code, err := waits.Try(http.MethodGet, "/tasks/wait?lanes=exclusive,concurrent")
		answered <- fmt.Sprintf("%d %s, %v", status, code, err)
	}()
	servertest.Eventually(t, "the poll to wait", func() bool {
		return strings.Contains(string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body), "hostler_waiting_polls 1")
	})

	w.set(true)
	lost := turns.Load()
	for range 2 { // on the broken connections, and on connections that cannot be made
		for _, path := range []string{"/nodes", "/tasks/" + before.ID, "/status"} {
			a := b.Ask(t, b.Token, http.MethodGet, path, nil)
			if a.Status != http.StatusServiceUnavailable || a.Code() != "store_unavailable" || a.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %s, Retry-After %q", path, a.Status, a.Body, a.Header.Get("Retry-After"))
			}
			if strings.Contains(string(a.Body), "internal") {
				t.Errorf("%s: %s", path, a.Body)
			}
		}
		a := b.Ask(t, b.Token, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
		if a.Status != http.StatusServiceUnavailable || a.Code() != "store_unavailable" {
			t.Errorf("a new task: %d %s", a.Status, a.Body)
		}
		if status, code, err := n.Try(http.MethodGet, "/tasks/wait?lanes=exclusive,concurrent"); err != nil || status != http.StatusServiceUnavailable || code != "store_unavailable" {
			t.Errorf("the node was answered %d %s, %v", status, code, err)
		}
		if a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/readyz", nil); a.Status != http.StatusServiceUnavailable {
			t.Errorf("it says that it is ready: %d %s", a.Status, a.Body)
		}
		if a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/healthz", nil); a.Status != http.StatusOK {
			t.Errorf("its process is said to be ill: %d %s", a.Status, a.Body)
		}
		if a := b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil); a.Status != http.StatusOK || !strings.Contains(string(a.Body), "hostler_store_up 0") {
			t.Errorf("metrics: %d", a.Status)
		}
	}

	servertest.Eventually(t, "systemd to be told that the broker lives", func() bool { return turns.Load() > lost+2 })
	select {
	case got := <-answered:
		t.Errorf("the poll that waited was answered %s", got)
	default:
	}

	w.set(false)
	servertest.Eventually(t, "the broker to be ready again", func() bool {
		return b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/readyz", nil).Status == http.StatusOK
	})
	if d, _ := n.Next(t); d.TaskID != before.ID {
		t.Errorf("the node got task %s", d.TaskID)
	}
	servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h2/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	if got := <-answered; got != "200 , <nil>" {
		t.Errorf("the poll that waited all the time was answered %s", got)
	}
}
