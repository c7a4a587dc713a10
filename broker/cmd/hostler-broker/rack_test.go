//go:build !race

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/maassim"
)

// TestFiveHundredOnboardingsAtOnce takes 500 machines from their BMCs to active nodes in one batch,
// all in parallel: the broker as a process of its own on SQLite, in real time, against a region
// that answers without delay. However many runs wait, the broker asks the region for its machines
// no more than once a second, and the broker's memory does not grow with the number of runs.
func TestFiveHundredOnboardingsAtOnce(t *testing.T) {
	const n = 500
	var longest atomic.Int64 // answer to a list
	p := newProcess(t, `{"require_hw_sync":false,"enable_phase2_roce":false,"batch_max_parallel":500}`, func(_ *process, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := &counted{ResponseWriter: w}
			next.ServeHTTP(c, r)
			if operation(r) == "GET machines" && c.n > longest.Load() {
				longest.Store(c.n)
			}
		})
	})
	rest := p.memory("VmRSS:")
	batch := api.OnboardingBatch{SiteID: "dc1", SKUID: "h100.8gpu", Reason: "a new hall"}
	for i := range n {
		batch.Nodes = append(batch.Nodes, p.box(i+1))
	}
	begun := time.Now()
	id := servertest.Must[api.OnboardingBatchStarted](t, p.Broker, http.MethodPost, "/onboardings/batch", batch).BatchID

	p.bringUp(n, func() bool {
		b := servertest.Must[api.OnboardingList](t, p.Broker, http.MethodGet, "/onboardings?limit=1&batch_id="+id, nil).Batch
		if b.Counts["failed_retryable"]+b.Counts["failed_manual_intervention"] > 0 || !b.StoppedAt.IsZero() {
			t.Fatalf("the batch is %+v", b)
		}
		return b.Counts["completed"] == n
	})
	took, most := time.Since(begun), p.memory("VmHWM:")

	lists, waited, asked := map[string][]time.Time{}, 0, 0
	for _, c := range p.region.Calls() {
		switch ids := c.Params["id"]; {
		case c.Params.Get("agent_name") != "": // whether a claim belongs to the run itself
		case c.Op == "list" && len(ids) > 0:
			waited++
			asked += len(ids)
		case c.Op == "list" && len(c.Params) == 0 || c.Op == "power_parameters" && c.SystemID == "":
			lists[c.Op] = append(lists[c.Op], c.At)
		}
	}
	// Machines that runs wait for are read together, every five seconds at most.
	if rounds := int(took/(5*time.Second)) + 2; waited > rounds*(n/100+1) || asked > rounds*n || asked < n {
		t.Errorf("%d machines that are waited for were read by %d calls in %v", asked, waited, took)
	}
	for op, at := range lists {
		for i := range at {
			// A list may be late by as much as the list before it took, but the delay does not add
			// up.
			const window = 5
			if i >= window+1 && at[i].Sub(at[i-window-1]) < window*time.Second {
				t.Errorf("%s was asked for %d times within %v", op, window+2, at[i].Sub(at[i-window-1]))
			}
		}
		if limit := int(took/time.Second) + 2; len(at) > limit || len(at) == 0 {
			t.Errorf("%s was asked for %d times in %v", op, len(at), took)
		}
	}
	t.Logf("%d onboardings in %v: %d lists of machines, the longest of %d kB; memory %d MB at rest, %d MB at most", n, took.Round(time.Second), len(lists["list"]), longest.Load()>>10, rest>>20, most>>20)
	// A list costs its text, and about five times as much once parsed; two lists may be in memory,
	// and as much again may await the collector. The rest is for the store and 500 connections of
	// nodes. A list for each run, or for each parallel step, would not fit.
	if room := 24*longest.Load() + 64<<20; most-rest > room {
		t.Errorf("500 onboardings took %d MB of memory, and %d are accounted for", (most-rest)>>20, room>>20)
	}
	for i := range n {
		if d := p.region.Happened(maassim.Box(i+1).Serial, "deploy"); d != 1 {
			t.Errorf("machine %d was deployed %d times", i+1, d)
		}
	}
}

// counted counts the bytes of an answer.
type counted struct {
	http.ResponseWriter
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n += int64(n)
	return n, err
}

// bringUp lets the agents of deployed machines enrol, as fast as one address may, until done.
func (p *process) bringUp(n int, done func() bool) {
	p.t.Helper()
	pace := rate.NewLimiter(18, 150)
	up := map[string]bool{}
	var work sync.WaitGroup
	defer work.Wait()
	free := make(chan struct{}, 8)
	for late := time.Now().Add(5 * time.Minute); !done(); <-time.After(time.Second) {
		if time.Now().After(late) || p.t.Failed() {
			p.t.Fatalf("%d of %d agents have come, and it does not end", len(up), n)
		}
		for _, m := range p.region.Machines() {
			if !m.HostUp || m.Status != maassim.Deployed || up[m.SystemID] {
				continue
			}
			up[m.SystemID] = true
			work.Go(func() {
				free <- struct{}{}
				defer func() { <-free }()
				if pace.Wait(p.t.Context()) == nil {
					p.bring(m.Hostname, m.SystemID)
				}
			})
		}
	}
}

// memory is the present or the peak memory of the program's process, in bytes.
func (p *process) memory(which string) int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte(which))
	kB, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return kB << 10
}
