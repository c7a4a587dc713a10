package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func TestMain(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

// hall is a broker and its fleet, in service.
type hall struct {
	t testing.TB
	*servertest.Broker
	*Process
	events string
	nodes  []string
}

func newHall(t testing.TB, nodes int, s Script, change ...func(*server.Config)) *hall {
	t.Helper()
	h := &hall{t: t, Broker: servertest.Start(t, change...), events: t.TempDir() + "/events"}
	var err error
	if h.Process, err = Start(Site{Broker: h.AgentURL(), CASHA256: h.RootSHA256(), Script: s}, h.events); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Process.Close(); err != nil {
			t.Errorf("the fleet ended with: %v", err)
		}
	})
	var tokens []string
	for i := range nodes {
		boot := servertest.Must[api.NodeBootstrap](t, h.Broker, http.MethodPost, "/nodes", api.NodeCreate{Hostname: fmt.Sprintf("sim-%05d", i), Bootstrap: "command"})
		tokens, h.nodes = append(tokens, boot.Token), append(h.nodes, boot.Node.ID)
	}
	if err := h.Join(tokens); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hall) until(what string, ok func(Counts) bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	if err := h.Until(ctx, what, ok); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hall) heartbeat(node string) api.Task {
	h.t.Helper()
	return servertest.Must[api.Task](h.t, h.Broker, http.MethodPost, "/nodes/"+node+"/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
}

// end polls the broker until each task is as is says, for half a minute.
func (h *hall) end(tasks map[string]Act, is map[Act]string) {
	h.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond) // an operator may not ask all the time
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		left := ""
		for _, k := range servertest.Must[api.TaskList](h.t, h.Broker, http.MethodGet, "/tasks?limit=200", nil).Items {
			act, ours := tasks[k.ID]
			if got := strings.TrimSpace(k.Status + " " + k.Code); ours && got != is[act] {
				left = fmt.Sprintf("task %s is %s, want %s by %s", k.ID, got, is[act], act)
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatal(left)
		}
	}
}

func TestAFleetEnrolsServesAndIsInService(t *testing.T) {
	const n = 20
	h := newHall(t, n, Script{})
	h.until("all wait", func(c Counts) bool { return c.Enrolled == n && c.Waiting == n && c.Ended == n })
	for _, id := range h.nodes {
		if node := servertest.Must[api.Node](t, h.Broker, http.MethodGet, "/nodes/"+id, nil); node.Status != "active" {
			t.Fatalf("node %s is %s", id, node.Status)
		}
	}
	for _, id := range h.nodes {
		h.heartbeat(id)
	}
	h.until("all have had a task", func(c Counts) bool { return c.Ended == 2*n })
	if c := h.Counts(); c.Refused+c.Unwelcome+c.Errors > 0 {
		t.Fatalf("%+v", c)
	}
}

// The broker's record of each task matches the script, and each task began once. A node has one task
// at a time: a crash would interrupt the others, and those of the same answer would wait for a lease
// to lapse.
func TestTasksEndAsTheScriptSays(t *testing.T) {
	const n, each = 8, 6
	script := Script{Fail: 0.2, Silent: 0.1, Crash: 0.2, Duplicate: 0.2}
	h := newHall(t, n, Script{})
	h.until("all are in service", func(c Counts) bool { return c.Waiting == n && c.Ended == n })
	if err := h.Play(script); err != nil {
		t.Fatal(err)
	}
	want := map[Act]string{Succeed: "succeeded", Duplicate: "succeeded", Fail: "failed scripted_failure", Crash: "failed interrupted", Silent: "dispatched"}
	acts, seen := map[string]Act{}, map[Act]int{}
	for range each {
		for _, id := range h.nodes {
			k := h.heartbeat(id)
			acts[k.ID] = script.Act(k.ID)
			seen[acts[k.ID]]++
		}
		h.end(acts, want)
		h.until("each duplicate has come", func(c Counts) bool { return int(c.Repeated) >= seen[Duplicate] })
	}
	if len(seen) != len(want) {
		t.Fatalf("of %d tasks the script made only %v: the test shows nothing of the others", len(acts), seen)
	}
	h.beganOnce(acts)
}

// beganOnce checks the fleet's events: each task started exactly once. The broker may record the
// fetch of a task before the node writes that the task began.
func (h *hall) beganOnce(tasks map[string]Act) {
	h.t.Helper()
	var started map[string]int
	h.until("each task has begun", func(Counts) bool {
		started = h.started()
		for id := range tasks {
			if started[id] == 0 {
				return false
			}
		}
		return true
	})
	for id := range tasks {
		if started[id] != 1 {
			h.t.Errorf("task %s was started %d times", id, started[id])
		}
	}
}

// started counts how often each task was begun, as the fleet's events say.
func (h *hall) started() map[string]int {
	h.t.Helper()
	file, err := os.Open(h.events)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	started := map[string]int{}
	for d := json.NewDecoder(file); d.More(); {
		var e Event
		if err := d.Decode(&e); err != nil {
			h.t.Fatal(err)
		}
		if e.What == Started {
			started[e.TaskID]++
		}
	}
	return started
}

// Broken connections lose no task's end and start no task twice.
func TestBrokenConnectionsCostNoTask(t *testing.T) {
	const n, cuts = 8, 3
	var ahead atomic.Int64
	h := newHall(t, n, Script{Takes: 20 * time.Millisecond}, func(c *server.Config) {
		c.StoreNow = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	h.until("all are in service", func(c Counts) bool { return c.Waiting == n && c.Ended == n })
	tasks := map[string]Act{}
	for range cuts {
		for _, id := range h.nodes {
			tasks[h.heartbeat(id).ID] = Succeed
		}
		had := h.Counts().Handshakes
		if err := h.Cut(); err != nil {
			t.Fatal(err)
		}
		h.until("all are back, by connections of their own", func(c Counts) bool { return c.Handshakes >= had+n && c.Waiting == n })
	}
	ahead.Store(int64(wire.LeaseTime + time.Second)) // tasks of an interrupted answer are delivered again
	h.end(tasks, map[Act]string{Succeed: "succeeded"})
	h.beganOnce(tasks)
}

func TestAScriptsSharesAreThoseOfTasks(t *testing.T) {
	script := Script{Fail: 0.1, Silent: 0.2, Crash: 0.3, Duplicate: 0.25}
	seen := map[Act]int{}
	for i := range 10000 {
		seen[script.Act(fmt.Sprintf("t-%026d", i))]++
	}
	for act, share := range map[Act]float64{Fail: 0.1, Silent: 0.2, Crash: 0.3, Duplicate: 0.25, Succeed: 0.15} {
		if got := float64(seen[act]) / 10000; math.Abs(got-share) > 0.02 {
			t.Errorf("%s: %.3f of the tasks, want %.2f", act, got, share)
		}
	}
}
