package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

const (
	watched     = "GET /projects/lab/allocations/alc-1"
	watchStream = "GET /projects/lab/events"
	hello       = "id: p0\n: still here\n\n"
)

func allocationIn(status string) string {
	return encoded(api.Allocation{ID: "alc-1", ProjectID: "prj-1", Status: status, SKU: "h100"})
}

func eventOf(id, allocation string) string {
	return "id: " + id + "\ndata: " + strings.TrimSpace(encoded(api.Event{ID: id, Type: "provisioning.active", Subject: "allocation/" + allocation})) + "\n\n"
}

func problemBody(status int, code string) string {
	return encoded(api.Problem{Status: status, Code: code, Detail: "cannot follow events: " + code})
}

// A watch follows the events of the project. It reads the allocation after a stream has opened and at
// the events of this allocation, and at nothing else.
func TestAWatchReadsAnAllocationWhenTheStreamBringsNews(t *testing.T) {
	for name, c := range map[string]struct {
		streams, reads []string
		asked          []string
		said           []string
	}{
		"already settled": {
			streams: []string{hello}, reads: []string{"active"},
			asked: []string{watchStream, watched},
		},
		"events of others": {
			streams: []string{hello + eventOf("e1", "alc-2") + eventOf("e2", "alc-11") + eventOf("e3", "alc-1") + eventOf("e4", "alc-2") + eventOf("e5", "alc-1")},
			reads:   []string{"requested", "provisioning", "active"},
			asked:   []string{watchStream, watched, watched, watched},
			said:    []string{"alc-1  requested", "alc-1  provisioning"},
		},
		"a broken connection": {
			streams: []string{hello + eventOf("e1", "alc-2") + brokenOff, hello}, reads: []string{"releasing", "released"},
			asked: []string{watchStream, watched, watchStream + "?after=e1", watched},
			said:  []string{"alc-1  releasing", "cannot read further events: the connection to BROKER broke (continue with --after e1): retrying", "connected again"},
		},
		"a broker that is away": {
			streams: []string{hello + brokenOff, problemBody(http.StatusServiceUnavailable, "starting"), problemBody(http.StatusServiceUnavailable, "starting"), hello},
			reads:   []string{"releasing", "released"},
			asked:   []string{watchStream, watched, watchStream + "?after=p0", watchStream + "?after=p0", watchStream + "?after=p0", watched},
			said: []string{
				"alc-1  releasing", "cannot read further events: the connection to BROKER broke (continue with --after p0): retrying",
				"cannot follow events: starting: retrying", "connected again",
			},
		},
		"a gap": {
			streams: []string{hello + brokenOff, problemBody(http.StatusConflict, "events_forgotten"), hello}, reads: []string{"releasing", "released"},
			asked: []string{watchStream, watched, watchStream + "?after=p0", watchStream, watched},
			said: []string{
				"alc-1  releasing", "cannot read further events: the connection to BROKER broke (continue with --after p0): retrying",
				"cannot follow events: events_forgotten: retrying", "connected again",
			},
		},
		"no place for a stream": {
			streams: []string{problemBody(http.StatusTooManyRequests, "too_many_readers")}, reads: []string{"active"},
			asked: []string{watchStream, watched},
			said:  []string{"cannot follow events: too_many_readers: retrying"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.answer(watchStream, http.StatusOK, c.streams...)
			var reads []string
			for _, status := range c.reads {
				reads = append(reads, allocationIn(status))
			}
			b.answer(watched, http.StatusOK, reads...)
			dir := t.TempDir()
			if err := b.writeClient(dir); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			args := []string{"--config", dir + "/client.yaml", "allocation", "watch", "alc-1", "--project", "lab"}
			if got := run(t.Context(), args, nowhere(&out, &errs)); got != exitDone {
				t.Fatalf("status %d: %s", got, errs.String())
			}
			if !strings.Contains(out.String(), c.reads[len(c.reads)-1]) {
				t.Errorf("it shows %q", out.String())
			}
			var asked []string
			for _, r := range b.requests() {
				asked = append(asked, r.line)
			}
			if !slices.Equal(asked, c.asked) {
				t.Errorf("it asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(c.asked, "\n"))
			}
			said := strings.Split(strings.TrimSpace(strings.ReplaceAll(errs.String(), b.URL, "BROKER")), "\n")
			if len(c.said) == 0 {
				c.said = []string{""}
			}
			if !slices.Equal(said, c.said) {
				t.Errorf("it said %q, want %q", said, c.said)
			}
		})
	}
}

// A stream that brings nothing keeps nobody waiting: the allocation is read from time to time, too.
func TestAWatchReadsAnAllocationWithoutNews(t *testing.T) {
	b := newFakeBroker(t)
	b.answer(watched, http.StatusOK, allocationIn("releasing"), allocationIn("released"))
	b.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			b.ServeHTTP(w, r)
			return
		}
		_, _ = io.WriteString(w, hello)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	dir := t.TempDir()
	if err := b.writeClient(dir); err != nil {
		t.Fatal(err)
	}
	a := &app{processEnv: nowhere(new(bytes.Buffer), new(bytes.Buffer)), config: dir + "/client.yaml"}
	remote, err := a.connect()
	if err != nil {
		t.Fatal(err)
	}
	again := make(chan time.Time, 1)
	again <- testNow
	w := &allocationWatch{app: a, remote: remote, project: "lab", id: "alc-1", begun: testNow, progress: a.progress(), again: again}
	if err := w.follow(t.Context()); !errors.Is(err, errSettled) || w.last.Status != "released" {
		t.Errorf("%v, %+v", err, w.last)
	}
}

// A member follows an allocation until it is active, over a stream that stays open.
func TestAMemberWatchesAnAllocation(t *testing.T) {
	s := newTenantSite(t)
	second := s.NewNode(t, api.NodeCreate{Hostname: "gpu-08", Site: "dc1", SKU: "h100.8gpu"}).Settle(t)
	servertest.Must[api.Quota](t, s.Broker, http.MethodPut, "/projects/lab/quotas/h100.8gpu", api.QuotaPut{Nodes: 2, GPUs: 16})
	key := servertest.Must[api.Allocation](t, s.Broker, http.MethodGet, "/projects/lab/allocations/"+s.allocation, nil).SSHKeyIDs[0]
	made := servertest.Must[api.Allocation](t, s.Broker, http.MethodPost, "/projects/lab/allocations",
		api.AllocationCreate{SKU: "h100.8gpu", Nodes: 1, SSHKeyIDs: []string{key}})
	n := onTerminal(t, s.asMember("allocation", "watch", made.ID, "--timeout", "1m"))
	n.shows(made.ID + "  ")
	second.Provision(t, made.ID)
	n.ends(exitDone)
	n.shows("active")
}
