package adminapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

type logEvent = api.OperationLogEvent[api.PlatformOperationLine]

// followed are the events of a log until its stream ends, and their data as it was sent.
func followed(t *testing.T, s *servertest.Stream) (all []logEvent, raw string) {
	t.Helper()
	for {
		data, open := s.Data(t)
		if !open {
			return all, raw
		}
		var e logEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		all, raw = append(all, e), raw+data+"\n"
	}
}

// A reader who follows a log gets the steps that nodes come to, the rows of the attempt when it has ended, and the
// end. The id of a row is a place to go on from. A project reads nothing of its nodes.
func TestALogIsFollowedUntilTheOperationEnds(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	mine := newTenant(t, b, "acme", "lab")
	mine.holds(t, b, "h100.8gpu")
	node.Provision(t, mine.held.ID)
	tokens := mine.tokens(t, b)
	member, viewer := tokens["project_member of a project"], tokens["project_viewer of a project"]
	var made api.Operation
	a := b.Ask(t, member, http.MethodPost, mine.operations(), api.OperationCreate{Operation: readiness, AllocationID: mine.held.ID})
	if err := json.Unmarshal(a.Body, &made); err != nil || a.Status != http.StatusCreated {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	path := mine.operations() + "/" + made.ID
	d, task, p := takesOperation(t, b, node)
	projects, platforms := b.Logs(t, viewer, path, ""), b.Logs(t, b.Token, "/operations/"+made.ID, "&step_id=driver")
	node.Progress(t, d, wire.ProgressRequest{CurrentStepIndex: 2, TotalSteps: 5, CurrentStepName: "runtime", StepStatus: "running", StepStartedAt: b.Now()})
	b.Advance(3 * time.Second)
	first, open := projects.Data(t)
	if !open || !strings.Contains(first, `{"progress":{"operation_id":"`+made.ID+`"`) || !strings.Contains(first, `"current_step_name":"runtime"`) {
		t.Errorf("it reads first: %s", first)
	}
	node.FailWith(t, d, task, taskcatalog.CodeStepFailed, "on gpu-1", resultOf(p, taskcatalog.StepFailed, "ports_down"))
	reaches(t, b, path, "failed")

	got, raw := followed(t, projects)
	if len(got) != 6 || got[0].Line == nil || got[0].Line.ID != "1.0.0" || got[4].Line.ErrorCode != "ports_down" || got[5].End == nil ||
		got[5].End.Status != "failed" || got[5].End.Code != "step_failed" || got[5].End.Attempt != 1 {
		t.Errorf("it reads %s", raw)
	}
	for _, word := range []string{"words of", "nvidia_smi", node.NodeID, "dc1", "message", "resolved_profile"} {
		if strings.Contains(first+raw, word) {
			t.Errorf("a project reads %q in %s", word, raw)
		}
	}
	got, raw = followed(t, platforms)
	got = slices.DeleteFunc(got, func(e logEvent) bool { return e.Progress != nil })
	if len(got) != 2 || got[0].Line.StepID != "driver" || got[0].Line.Message != "words of gpu-1" || got[1].End == nil {
		t.Errorf("the platform reads %s", raw)
	}
	// After a row come the rows after it.
	if got, raw = followed(t, b.Logs(t, viewer, path, "&cursor=1.0.2")); len(got) != 3 || got[0].Line.ID != "1.0.3" {
		t.Errorf("after the third row it reads %s", raw)
	}
	if a := b.Ask(t, viewer, http.MethodGet, path+"/logs?follow=true&cursor=none", nil); a.Code() != "cursor_invalid" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A reader that comes back with Last-Event-ID goes on after that row, also where it sends the cursor of its first
// request. An id of no row is refused, and takes nobody's place.
func TestAReaderOfALogGoesOnAfterItsLastEvent(t *testing.T) {
	b := servertest.Start(t)
	ship(t, b)
	node := stocked(t, b, "h100.8gpu", 1, servertest.H100s(8))[0]
	made := servertest.Must[api.PlatformOperation](t, b, http.MethodPost, "/operations", api.PlatformOperationCreate{Operation: readiness, Node: node.NodeID, Reason: "look"})
	path := "/operations/" + made.ID
	d, task, p := takesOperation(t, b, node)
	node.FailWith(t, d, task, taskcatalog.CodeStepFailed, "on gpu-1", resultOf(p, taskcatalog.StepFailed, "ports_down"))
	reaches(t, b, path, "failed")
	after := func(last, query string) servertest.Answer {
		return b.AskWith(t, http.Header{"Last-Event-Id": {last}}, b.Token, http.MethodGet, path+"/logs"+query, nil)
	}
	ids := func(a servertest.Answer) (all []string) {
		for line := range strings.Lines(string(a.Body)) {
			if id, is := strings.CutPrefix(line, "id: "); is {
				all = append(all, strings.TrimSpace(id))
			}
		}
		return all
	}
	for last, want := range map[string][]string{
		"":      {"1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4"},
		"1.0.2": {"1.0.3", "1.0.4"},
		"1.0.4": nil,
		"2.0.0": nil, // of an attempt that will be
		"9223372036854775807.9223372036854775807.9223372036854775807": nil,
	} {
		a := after(last, "?follow=true")
		if got := ids(a); !slices.Equal(got, want) || !strings.Contains(string(a.Body), `{"end":{`) {
			t.Errorf("after %q come %q: %d %s", last, got, a.Status, a.Body)
		}
	}
	if got := ids(after("1.0.3", "?follow=true&cursor=1.0.0")); !slices.Equal(got, []string{"1.0.4"}) {
		t.Errorf("after the last event comes %q", got)
	}
	for range outbox.MaxEach + 1 {
		for _, last := range []string{"none", "-1.0.0", "1.-1.0", "0.0.0", "1.0.2'; --", "01.0.2", "1.0", "1.0.2.3", "9223372036854775808.0.0"} {
			if a := after(last, "?follow=true"); a.Code() != "cursor_invalid" {
				t.Errorf("after %q: %d %s", last, a.Status, a.Body)
			}
		}
		if a := after(strings.Repeat("1", 65), "?follow=true"); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("a long id: %d %s", a.Status, a.Body)
		}
	}
	if a := after("none", ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), "1.0.0") {
		t.Errorf("a page heeds the header: %d %s", a.Status, a.Body)
	}
}

// The streams of logs count as those of events do.
func TestATokenFollowsSoManyLogsAndNoMore(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100.8gpu", 1)
	mine := newTenant(t, b, "acme", "lab")
	mine.holds(t, b, "h100.8gpu")
	id := mine.operated(t, b)
	token := mine.tokens(t, b)["project_viewer of a project"]
	for range outbox.MaxEach {
		b.Logs(t, token, mine.operations()+"/"+id, "")
	}
	if a := b.Ask(t, token, http.MethodGet, mine.operations()+"/"+id+"/logs?follow=true", nil); a.Code() != "too_many_readers" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
