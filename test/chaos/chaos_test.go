//go:build chaos

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/api/client"
	"github.com/hostler/hostler/test/fleet"
	"github.com/hostler/hostler/test/maassim"
)

const (
	nodes    = 500
	machines = 60
	// whole is long enough for each kind of fault to strike.
	whole = 10 * time.Minute
	// healing is the time limit for everything to end after the last fault: a task that was handed
	// out and lost waits for its lease and its latest start.
	healing = 15 * time.Minute
)

// TestFaults runs faults for minutes (CHAOS_FOR, 10m) and then checks every promise.
func TestFaults(t *testing.T) {
	long, err := time.ParseDuration(orElse(os.Getenv("CHAOS_FOR"), "10m"))
	must(t, err)
	s := newScene(t, "")
	ids := s.setUp(nodes, fleet.Script{Fail: 0.05, Crash: 0.02, Duplicate: 0.05, Takes: 200 * time.Millisecond, Cut: 5 * time.Minute, Renew: 5 * time.Minute})
	s.inService(nodes)
	batch := s.onboard(s.lives, machines)

	ctx, heal := context.WithTimeout(t.Context(), long)
	defer heal()
	working := make(chan struct{})
	go func() { s.operate(ctx, ids); close(working) }()
	happened := s.trouble(ctx)
	<-working
	begun := time.Now()
	t.Logf("all is whole again: %+v", s.fleet.Counts())
	s.until("no task is open, and no onboarding", healing, func() bool { return s.settled(batch, machines) })
	t.Logf("everything has ended %v later: %+v", time.Since(begun).Round(time.Second), s.fleet.Counts())
	s.die()
	s.fleet.Wait()

	for _, f := range faults {
		t.Logf("%3d times: %s", happened[f.name], f.name)
		if happened[f.name] == 0 && long >= whole {
			t.Errorf("in %v it never happened: %s; what held says nothing about that (is a broker ever free for it? see trouble)", long, f.name)
		}
	}
	s.judgeTasks()
	s.judgeAudit()
	s.judgeOnboardings(batch)
}

// inService returns when all nodes are in service.
func (s *scene) inService(nodes int64) {
	s.t.Helper()
	begun := time.Now()
	s.until("all nodes are in service", 5*time.Minute, func() bool {
		c := s.fleet.Counts()
		return c.Ended >= nodes && c.Waiting >= nodes*9/10
	})
	s.t.Logf("%d nodes are in service after %v", nodes, time.Since(begun).Round(time.Second))
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// until polls a condition.
func (s *scene) until(what string, patience time.Duration, ok func() bool) {
	s.t.Helper()
	for late := time.Now().Add(patience); !ok(); <-time.After(time.Second) {
		if time.Now().After(late) {
			s.t.Fatalf("waited in vain until %s: %+v (the last error: %v)", what, s.fleet.Counts(), s.fleet.LastError())
		}
	}
}

// settled reports whether all runs have ended; a failed run waits for a person.
func (s *scene) settled(batch string, machines int) bool {
	for _, status := range []string{"queued", "dispatched"} {
		open, err := s.api.Tasks(s.t.Context(), client.TaskFilter{Status: status, Limit: 1})
		if err != nil || len(open.Items) > 0 {
			return false
		}
	}
	runs, err := s.api.Onboardings(s.t.Context(), client.OnboardingFilter{RunFilter: client.RunFilter{Batch: batch}})
	return err == nil && len(runs.Items) == machines && !slices.ContainsFunc(runs.Items, func(o api.Onboarding) bool { return !o.Ended && !strings.HasPrefix(o.Status, "failed") })
}

// judgeTasks compares the brokers' tasks with the records of nodes and operators.
func (s *scene) judgeTasks() {
	t := s.t
	all, err := s.api.Tasks(t.Context(), client.TaskFilter{})
	must(t, err)
	said := map[string]api.Task{}
	for _, k := range all.Items {
		said[k.ID] = k
	}
	ends, wrong := map[string]int{}, 0
	bad := func(format string, args ...any) {
		if wrong++; wrong <= 20 {
			t.Errorf(format, args...)
		}
	}
	for id := range s.seen.accepted {
		k, there := said[id]
		if !there {
			bad("task %s was accepted, and is not there", id)
			continue
		}
		began, outcomes := 0, map[string]bool{}
		for _, e := range s.seen.events[id] {
			switch e.What {
			case fleet.Started:
				began++
			case fleet.Reported:
				outcomes[e.Outcome] = true
			}
		}
		switch {
		case !k.Ended:
			bad("task %s is %s", id, k.Status)
		case began > 1:
			bad("task %s began %d times", id, began)
		case began == 0 && k.Outcome != "":
			bad("task %s never began and is %s", id, k.Outcome)
		case len(outcomes) > 1:
			bad("of task %s the node was told %v", id, slices.Sorted(maps.Keys(outcomes)))
		case len(outcomes) == 1 && !outcomes[k.Outcome]:
			bad("of task %s the node was told %v, and it is %s %s %s", id, slices.Sorted(maps.Keys(outcomes)), k.Status, k.Outcome, k.Code)
		case k.Status == "succeeded" && !outcomes["succeeded"] && began == 0:
			bad("task %s succeeded and never began", id)
		}
		ends[strings.TrimSpace(k.Status+" "+k.Code)]++
	}
	for id, events := range s.seen.events {
		if _, there := said[id]; !there {
			bad("a node was given task %s (%s), of which no broker knows", id, events[0].Type)
		}
	}
	if len(s.seen.accepted) < 100 {
		t.Errorf("only %d tasks were accepted", len(s.seen.accepted))
	}
	if len(s.seen.refused) > 0 { // who insists is told to come again, and nothing else
		t.Errorf("operators were refused: %v; the brokers' logs: %v", s.seen.refused, s.internals())
	}
	t.Logf("held: %d tasks were accepted, and each ended once: %v; %d wrong", len(s.seen.accepted), ends, wrong)
}

// internals returns the lines of the brokers' logs about errors without a name.
func (s *scene) internals() (lines []string) {
	for _, b := range s.brokers {
		text, err := os.ReadFile(b.log.Name())
		must(s.t, err)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"code":"internal"`) && len(lines) < 20 {
				lines = append(lines, b.name+" "+strings.TrimSpace(line))
			}
		}
	}
	return lines
}

// judgeAudit checks that the audit log contains each task's beginning and end exactly once, and
// that the seals fit.
func (s *scene) judgeAudit() {
	t := s.t
	var verified *api.AuditVerification
	s.until("all rows are sealed", 2*time.Minute, func() bool {
		var err error
		verified, err = s.api.VerifyAudit(t.Context())
		return err == nil && verified.Unsealed == 0
	})
	if !verified.OK {
		t.Errorf("the seals do not fit: %+v", verified)
	}
	var out bytes.Buffer
	must(t, s.api.ExportAudit(t.Context(), client.AuditFilter{}, &out))
	rows := map[string]int{}
	n := 0
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e api.AuditEntry
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Action != "" {
			n++
			rows[e.Action+" "+e.Subject]++
		}
	}
	wrong := 0
	for id := range s.seen.accepted {
		for _, action := range []string{"task.enqueue", "task.end"} {
			if got := rows[action+" task/"+id]; got != 1 {
				if wrong++; wrong <= 10 {
					t.Errorf("%d rows of %s of task %s", got, action, id)
				}
			}
		}
	}
	t.Logf("held: %d rows of the audit log, %d of them sealed, and the seals fit; %d wrong", n, verified.Rows, wrong)
}

// judgeOnboardings compares the brokers' runs with MAAS's records.
func (s *scene) judgeOnboardings(batch string) {
	t := s.t
	runs, err := s.api.Onboardings(t.Context(), client.OnboardingFilter{RunFilter: client.RunFilter{Batch: batch}})
	must(t, err)
	status := map[string]int{}
	deployed := map[string]maassim.Machine{}
	for _, m := range s.region.Machines() {
		if m.Status == maassim.Deployed {
			deployed[m.SystemID] = m
		}
	}
	for n, o := range runs.Items {
		status[o.Status]++
		if o.Status != "completed" {
			t.Errorf("the onboarding of %s is %s at %s: %s %s", o.Hostname, o.Status, o.CurrentStage, o.ErrorCode, o.ErrorMessage)
			continue
		}
		m, there := deployed[*o.MAASSystemID]
		if !there {
			t.Errorf("the onboarding of %s is completed, and its machine is not deployed", o.Hostname)
			continue
		}
		if times := s.region.Happened(m.SystemID, "deploy"); times != 1 {
			t.Errorf("the machine of %s was deployed %d times", o.Hostname, times)
		}
		node, err := s.api.Node(t.Context(), *o.NodeID)
		if err != nil || node.Status != "active" && node.Status != "offline" {
			t.Errorf("%d: node %s is %+v, %v", n, o.Hostname, node, err)
		}
	}
	t.Logf("held: %d onboardings: %v; no machine was deployed twice", len(runs.Items), status)
}
