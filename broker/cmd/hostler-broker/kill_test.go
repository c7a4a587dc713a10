package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/test/maassim"
)

// TestABrokerKilledInAnyCallDeploysOnce kills the process with SIGKILL at each call to MAAS of an
// onboarding, in each of its stages: when the call arrives, before anything is done, and for a call
// that changes something also after the change and before the answer. Each time the broker starts
// again from its disk, a lease later. The test onboards one machine after the other until no call
// is left at which the broker was not killed.
func TestABrokerKilledInAnyCallDeploysOnce(t *testing.T) {
	t.Parallel()
	g := &gallows{fatal: map[string]bool{}, down: make(chan string, 1)}
	p := newProcess(t, `{"require_hw_sync":true,"hardware_sync_interval":"5m","hardware_sync_health_timeout_seconds":2700,"enable_phase2_roce":false}`, g.door)
	kills := 0
	for n := 1; ; n++ {
		if n > 8 {
			t.Fatalf("it was killed at %d calls, and there is no end of them", kills)
		}
		killed := g.onboard(n)
		if kills += killed; killed == 0 {
			break // and this machine shows a run without a kill
		}
	}
	if len(g.stages) < 10 || !g.fatal["deploy_via_maas POST machines deploy, done"] || !g.fatal["create_or_find_in_maas POST machines, done"] || !g.fatal["deploy_via_maas POST machines allocate, done"] {
		t.Errorf("killed %d times in %v, at %v", kills, g.stages, g.fatal)
	}
	t.Logf("killed %d times, in %d stages", kills, len(g.stages))

	// And between two stages, while the site is frozen.
	g.frozen = true
	before := len(g.rested)
	killed := g.onboard(len(p.region.Machines()) + 1)
	if killed != len(g.rested)-before || killed < 9 {
		t.Errorf("killed %d times between stages, at %v", killed, g.rested)
	}
	t.Logf("killed %d times between two stages", killed)
}

// mostKills is one less than the number of deaths in one stage that a run survives by itself.
const mostKills = 4

// gallows stand between a broker and its region.
type gallows struct {
	p     *process
	mu    sync.Mutex // held while the broker must stay alive
	run   string     // the watched run; empty: nobody is killed
	fatal map[string]bool
	// stages are the stages in which the broker was killed, for all runs and for this run.
	stages, here map[string]int
	down         chan string

	frozen  bool     // the site is frozen in each stage, so that the broker is killed after the stage
	inStage string   // the stage of the freeze; empty: no freeze
	rested  []string // the stages before which the broker was killed
}

func (g *gallows) door(p *process, next http.Handler) http.Handler {
	g.p, g.stages = p, map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.strike(r, "")
		if r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		g.strike(r, ", done")
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// strike kills the broker that made a call, unless the broker was killed at this call before.
func (g *gallows) strike(r *http.Request, when string) {
	if g.run == "" || r.Context().Err() != nil {
		return
	}
	var o api.Onboarding
	if err := g.p.peek("/onboardings/"+g.run, &o); err != nil {
		panic(http.ErrAbortHandler) // the broker is gone
	}
	if g.frozen {
		g.freeze(o.CurrentStage)
		return
	}
	at := o.CurrentStage + " " + operation(r) + when
	if g.fatal[at] || g.here[o.CurrentStage] >= mostKills {
		return
	}
	g.fatal[at] = true
	g.stages[o.CurrentStage]++
	g.here[o.CurrentStage]++
	g.p.kill()
	g.down <- at
	panic(http.ErrAbortHandler)
}

// freeze keeps the run from its next stage, while the present stage continues.
func (g *gallows) freeze(stage string) {
	if g.inStage == "" {
		g.p.mustPost("/freeze", api.FreezePut{Site: "dc1", Reason: "between two stages"})
		g.inStage = stage
	}
}

// rest kills the broker once the frozen stage has ended, and lets the run go on.
func (g *gallows) rest(run string) (at string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inStage == "" {
		return ""
	}
	stage, owner, _ := g.p.row(run)
	if owner != "" {
		return ""
	}
	if stage != g.inStage {
		g.rested = append(g.rested, stage)
		at = "before " + stage
		g.p.kill()
		g.p.boot()
	}
	g.p.mustPost("/unfreeze", api.FreezePut{Site: "dc1", Reason: "go on"})
	g.p.Advance(61 * time.Second) // runs resume spread over a minute
	g.inStage = ""
	return at
}

// operation names a call without its machine.
func operation(r *http.Request) string {
	path, _ := strings.CutPrefix(r.URL.Path, "/MAAS/api/2.0/")
	part := strings.Split(strings.Trim(path, "/"), "/")
	words := []string{r.Method, part[0]}
	if len(part) > 2 {
		words = append(words, part[2])
	}
	query, _ := url.ParseQuery(r.URL.RawQuery)
	if op := query.Get("op"); op != "" {
		words = append(words, op)
	}
	if query.Get("agent_name") != "" {
		words = append(words, "by agent")
	}
	return strings.Join(words, " ")
}

// onboard takes the n-th machine from its BMC to an active node, and returns the number of kills.
func (g *gallows) onboard(n int) (killed int) {
	p, t := g.p, g.p.t
	t.Helper()
	m := p.box(n)
	begun := servertest.Must[api.Onboarding](t, p.Broker, http.MethodPost, "/onboardings", api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: m})
	g.mu.Lock()
	g.run, g.here = begun.OnboardingID, map[string]int{}
	g.mu.Unlock()
	var o api.OnboardingDetail
	var deaths []string
	enrolled := false
	for late := time.Now().Add(3 * time.Minute); !o.Ended; <-time.After(5 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("run %d is %s at %s: %s %s; killed at %v", n, o.Status, o.CurrentStage, o.Waiting, o.ErrorMessage, deaths)
		}
		select {
		case at := <-g.down:
			deaths = append(deaths, at)
			p.Advance(61 * time.Second) // the leases are over
			p.boot()
		default:
		}
		if at := g.rest(begun.OnboardingID); at != "" {
			deaths = append(deaths, at)
		}
		if p.peek("/onboardings/"+begun.OnboardingID, &o) != nil {
			continue
		}
		if strings.HasPrefix(o.Status, "failed") {
			t.Fatalf("run %d is %s at %s: %s %s; killed at %v", n, o.Status, o.CurrentStage, o.ErrorCode, o.ErrorMessage, deaths)
		}
		if o.CurrentStage == "wait_for_agent_enrollment" && !enrolled {
			g.mu.Lock() // the broker stays alive until the agent has its answer
			select {
			case at := <-g.down:
				g.down <- at
			default:
				p.enrol(m.Hostname, *o.MAASSystemID)
				enrolled = true
			}
			g.mu.Unlock()
		}
		if o.Waiting != "" && p.sleeps(begun.OnboardingID) {
			p.Advance(5 * time.Second)
		}
	}
	g.mu.Lock()
	g.run = ""
	g.mu.Unlock()
	g.judge(n, m.Hostname, o, deaths)
	return len(deaths)
}

// judge checks everything that must hold of an ended run, wherever the broker was killed.
func (g *gallows) judge(n int, hostname string, o api.OnboardingDetail, deaths []string) {
	p, t := g.p, g.p.t
	t.Helper()
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("run %d, killed at %v: %s", n, deaths, fmt.Sprintf(format, args...))
	}
	serial := maassim.Box(n).Serial
	if d, a := p.region.Happened(serial, "deploy"), p.region.Happened(serial, "allocate"); o.Status != "completed" || d != 1 || a != 1 {
		bad("it is %s, with %d deployments and %d allocations", o.Status, d, a)
	}
	if all := p.region.Machines(); len(all) != n {
		bad("MAAS has %d machines", len(all))
	}
	nodes := servertest.Must[api.NodeList](t, p.Broker, http.MethodGet, "/nodes", nil)
	if i := slices.IndexFunc(nodes.Items, func(one api.Node) bool { return one.Hostname == hostname }); len(nodes.Items) != n || i < 0 || nodes.Items[i].Status != "active" {
		bad("the nodes are %+v", nodes.Items)
	}
	// Each stage of the main line began once and ended once, one after the other.
	var line []string
	for _, s := range o.Stages {
		if s.Rescues == "" {
			line = append(line, s.Stage)
		}
	}
	var told []string
	for i, e := range o.Events {
		told = append(told, fmt.Sprint(e.Stage, " ", e.Attempt, " ", e.Status))
		if begins := i%2 == 0; e.Attempt != 1 || e.Direction != "forward" || begins != (e.Status == "started") || !begins && e.Status != "succeeded" && e.Status != "skipped" || i/2 >= len(line) || e.Stage != line[i/2] {
			bad("event %d is %s %d %s", i, e.Stage, e.Attempt, e.Status)
		}
	}
	if len(o.Events) != 2*len(line) {
		bad("its history is %v", told)
	}
	// The stream of events agrees. The leading broker writes the stream after the run; with two
	// brokers the leader may be the broker that was just killed.
	about := map[string]int{}
	for late := time.Now().Add(time.Minute); about["completed"] == 0 && time.Now().Before(late); <-time.After(20 * time.Millisecond) {
		raw := p.Ask(t, p.Token, http.MethodGet, "/events?follow=false&after=0", nil)
		for _, kind := range []string{"started", "completed"} {
			about[kind] = 0
			for _, one := range strings.Split(string(raw.Body), "\n") {
				if strings.Contains(one, `"node.onboarding.`+kind+`"`) && strings.Contains(one, o.OnboardingID) {
					about[kind]++
				}
			}
		}
	}
	if about["started"] != 1 || about["completed"] != 1 {
		bad("it was told of %v times", about)
	}
}
