package adminapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/outbox"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
)

func (n tenant) events() string { return "/projects/" + n.project.ID + "/events" }

// told reads a project's stored events, once n of them have their place.
func (n tenant) told(t *testing.T, b *servertest.Broker, token string, many int) (events []api.Event) {
	t.Helper()
	servertest.Eventually(t, fmt.Sprintf("%d events of the project", many), func() bool {
		events = all(t, b.ProjectEvents(t, token, n.project.ID, "?after=0&follow=false"))
		return len(events) >= many
	})
	return events
}

// A project reads each status of its allocations, and of them alone. Each event has the documented
// fields and nothing else: no node, no site, no operator, no request of the platform.
func TestAProjectFollowsItsAllocationsAlone(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	nodes := stocked(t, b, "h100.8gpu", 3)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	token := mine.tokens(t, b)["project_viewer of a project"]
	s := b.ProjectEvents(t, token, mine.project.ID, "")
	theirs.holds(t, b, "h100.8gpu")
	mine.holds(t, b, "h100.8gpu")
	for _, id := range []string{theirs.held.ID, mine.held.ID} {
		leads(t, b, id, toProvisioning, toActive)
	}
	servertest.Must[api.PlatformAllocation](t, b, http.MethodPost, "/allocations/"+mine.held.ID+"/force-release", api.ReasonBody{Reason: "planted-reason"})
	leads(t, b, mine.held.ID, toReleaseFailed)
	var got []string
	for range 4 {
		e, open := s.Next(t)
		if !open || e.Subject != "allocation/"+mine.held.ID {
			t.Fatalf("it reads %+v", e)
		}
		got = append(got, e.Type)
	}
	want := []string{"provisioning.requested", "provisioning.active", "provisioning.releasing.requested", "provisioning.release_failed"}
	if !slices.Equal(got, want) {
		t.Errorf("it reads %q", got)
	}
	raw := b.Ask(t, token, http.MethodGet, mine.events()+"?after=0&follow=false", nil)
	secret := []string{theirs.org.ID, theirs.project.ID, theirs.held.ID, "moonshot", "dc1", "planted-reason", "hostler/runs", "admin", `"by"`, `"site"`, "correlation", "hostname", "node_id"}
	for _, n := range nodes {
		secret = append(secret, n.NodeID)
	}
	for _, word := range secret {
		if reads(string(raw.Body), word) {
			t.Errorf("a project reads %q in %s", word, raw.Body)
		}
	}
	documentedForProject(t, raw)
	// The platform reads the same stream; a token that is bound to other sites reads nothing of it.
	if got := mine.told(t, b, b.Token, 4); len(got) != 4 {
		t.Errorf("the platform reads %+v", got)
	}
	other := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}})
	if got := all(t, b.ProjectEvents(t, other, mine.project.ID, "?after=0&follow=false")); len(got) != 0 {
		t.Errorf("a token of another site reads %+v", got)
	}
}

// documentedForProject checks the events of a project against the document, and counts them by type.
func documentedForProject(t *testing.T, stream servertest.Answer) map[string]int {
	t.Helper()
	schemas, seen := channelSchemas(t, "projectEvents"), map[string]int{}
	if names := slices.Sorted(maps.Keys(schemas)); !slices.Equal(names, slices.Sorted(slices.Values(outbox.ProjectTypes))) {
		t.Errorf("documented are %q", names)
	}
	for line := range strings.Lines(string(stream.Body)) {
		data, is := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !is {
			continue
		}
		e, err := validator.UnmarshalJSON(strings.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		typ := e.(map[string]any)["type"].(string)
		seen[typ]++
		if err := schemas[typ][0].Validate(e); err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
	return seen
}

// A project resumes by an id that tells nothing: neither how many events there are, nor whether
// something happened elsewhere.
func TestAnIDOfAProjectsEventTellsNothing(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100.8gpu", 2)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	token := mine.tokens(t, b)["project_viewer of a project"]
	mine.holds(t, b, "h100.8gpu")
	theirs.holds(t, b, "h100.8gpu")
	leads(t, b, mine.held.ID, toProvisioning, toFailed)
	events, others := mine.told(t, b, token, 2), theirs.told(t, b, b.Token, 1)
	if again := mine.told(t, b, b.Token, 2); again[0].ID != events[0].ID || again[1].ID != events[1].ID || events[0].ID == events[1].ID {
		t.Errorf("the ids are %q and %q, and then %q and %q", events[0].ID, events[1].ID, again[0].ID, again[1].ID)
	}
	if got := all(t, b.ProjectEvents(t, token, mine.project.ID, "?follow=false&after="+events[0].ID)); len(got) != 1 || got[0].ID != events[1].ID {
		t.Errorf("after the first it reads %+v", got)
	}
	// Nothing happens, and yet each position looks new. Each of them is one to resume at.
	seen := map[string]bool{}
	for range 3 {
		raw := b.Ask(t, token, http.MethodGet, mine.events()+"?follow=false&after="+events[1].ID, nil)
		_, id, _ := strings.Cut(string(raw.Body), "id: ")
		id, _, _ = strings.Cut(id, "\n")
		seen[id] = true
		if len(id) != len(events[0].ID) {
			t.Errorf("the position is %q", raw.Body)
		}
		if got := all(t, b.ProjectEvents(t, token, mine.project.ID, "?follow=false&after="+id)); len(got) != 0 {
			t.Errorf("after %q it reads %+v", id, got)
		}
	}
	if len(seen) != 3 {
		t.Errorf("the positions are %v", seen)
	}
	// No other id is taken, and no refusal has a number in it.
	flipped := "A" + events[0].ID[1:]
	if flipped == events[0].ID {
		flipped = "B" + events[0].ID[1:]
	}
	var text string
	for _, id := range []string{"7", "-1", "x", others[0].ID, flipped, events[0].ID + "A", strings.Repeat("A", 43)} {
		a := b.Ask(t, token, http.MethodGet, mine.events()+"?follow=false&after="+id, nil)
		if a.Code() != "event_unknown" || a.Status != http.StatusConflict || text != "" && string(a.Body) != text {
			t.Errorf("after %q: %d %s", id, a.Status, a.Body)
		}
		text = string(a.Body)
	}
}

// What is no longer kept is refused in words without numbers.
func TestAProjectIsToldOfForgottenEventsWithoutNumbers(t *testing.T) {
	b := servertest.Start(t)
	stocked(t, b, "h100.8gpu", 1)
	mine := newTenant(t, b, "acme", "lab")
	mine.holds(t, b, "h100.8gpu")
	first := mine.told(t, b, b.Token, 1)[0]
	later := newSiteNode(t, b, "later", "dc1")
	servertest.Eventually(t, "a later event", func() bool {
		return len(all(t, b.Events(t, b.Token, "?after=0&follow=false&subject=node/"+later.ID))) == 1
	})
	db, err := store.Open(t.Context(), store.Options{URL: server.StoreURL(b.Dir, ""), Now: b.Now})
	if err == nil {
		_, err = db.ForgetEvents(t.Context(), b.Now().Add(time.Hour), 0, 1000, "")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	a := b.Ask(t, b.Token, http.MethodGet, mine.events()+"?follow=false&after="+first.ID, nil)
	if a.Code() != "events_forgotten" || strings.ContainsAny(detailOf(t, a), "0123456789") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func detailOf(t *testing.T, a servertest.Answer) string {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(a.Body, &p); err != nil {
		t.Fatal(err)
	}
	return p.Detail
}

func TestAProjectsStreamEndsWithItsToken(t *testing.T) {
	b := servertest.Start(t)
	mine := newTenant(t, b, "acme", "lab")
	token := b.NewToken(t, api.TokenCreate{Name: "short", Role: "project_viewer", Project: mine.project.ID})
	s := b.ProjectEvents(t, token, mine.project.ID, "")
	servertest.Must[api.Token](t, b, http.MethodPost, "/tokens/short/revoke", api.ReasonBody{Reason: "test"})
	if e, open := s.Next(t); open {
		t.Errorf("a revoked token reads %+v", e)
	}
}

// joins lets readers of an organisation in until the feed refuses one. Each token and each project has
// as many as it may.
func joins(t *testing.T, f *outbox.Feed, organisation string) (leave []func(), refused error) {
	t.Helper()
	for i := range 2 * outbox.MaxEachOrganisation {
		token := fmt.Sprint("token ", i/outbox.MaxEach, " of ", organisation)
		l, err := f.JoinProject(token, organisation, fmt.Sprint("project ", i/outbox.MaxEachProject, " of ", organisation))
		if err != nil {
			return leave, err
		}
		leave = append(leave, l)
	}
	t.Fatalf("organisation %s has %d streams", organisation, len(leave))
	return nil, nil
}

// Streams of projects take no room from the platform's, and those of organisations with many streams
// none from the first streams of another.
func TestOrganisationsWithManyStreamsShutNobodyOut(t *testing.T) {
	f := outbox.NewFeed(nil)
	var leave []func()
	had := map[int]int{} // organisations by their streams
	for i := range 8 {
		l, err := joins(t, f, fmt.Sprint("greedy ", i))
		had[len(l)]++
		leave = append(leave, l...)
		if no := broker.AsError(err); no.Code != "too_many_readers" || no.RetryAfter <= 0 || strings.Contains(no.Message, "256") {
			t.Errorf("organisation %d: %v, again after %s", i, err, no.RetryAfter)
		}
	}
	if had[outbox.MaxEachOrganisation] != 4 || had[outbox.Few] != 4 {
		t.Errorf("organisations by their streams: %v", had)
	}
	for i := range outbox.Few {
		if _, err := f.JoinProject("honest token", "honest", "honest project"); err != nil {
			t.Errorf("stream %d of an honest organisation: %v", i+1, err)
		}
	}
	if _, err := f.Join("operator"); err != nil {
		t.Errorf("the platform's: %v", err)
	}
	// Once greedy readers have left, an honest one gets more.
	if _, err := f.JoinProject("honest token", "honest", "honest project"); broker.AsError(err).Code != "too_many_readers" {
		t.Errorf("one more: %v", err)
	}
	for _, l := range leave[:outbox.MaxEachOrganisation] {
		l()
	}
	if _, err := f.JoinProject("honest token", "honest", "honest project"); err != nil {
		t.Errorf("one more, once others have left: %v", err)
	}
}

// Each bound of a reader has a refusal that names what has too many, and nothing of other organisations.
func TestATokenAProjectAndAnOrganisationHaveSoManyStreams(t *testing.T) {
	f := outbox.NewFeed(nil)
	leave, err := joins(t, f, "acme")
	if len(leave) != outbox.MaxEachOrganisation || !strings.Contains(err.Error(), "the organisation has all of its 32 streams") {
		t.Errorf("%d streams, then %v", len(leave), err)
	}
	for _, l := range leave[outbox.MaxEachProject+1:] {
		l()
	}
	for project, want := range map[string]string{
		"project 0 of acme": "the project has all of its 16 streams", "project 1 of acme": "",
	} {
		if _, err := f.JoinProject("another", "acme", project); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("one more of %s: %v", project, err)
		}
	}
	if _, err := f.JoinProject("token 0 of acme", "acme", "project 2 of acme"); err == nil || !strings.Contains(err.Error(), "token 0 of acme has all of its 8 streams") {
		t.Errorf("one more of a token: %v", err)
	}
}

// However many organisations there are, a broker has so many streams of projects and no more.
func TestABrokerHasSoManyStreamsOfProjects(t *testing.T) {
	f := outbox.NewFeed(nil)
	for i := range outbox.MaxProjectReaders {
		name := fmt.Sprint(i)
		if _, err := f.JoinProject(name, name, name); err != nil {
			t.Fatalf("organisation %d: %v", i, err)
		}
	}
	if _, err := f.JoinProject("new", "new", "new"); broker.AsError(err).Code != "too_many_readers" || strings.ContainsAny(err.Error(), "0123456789") {
		t.Errorf("one more: %v", err)
	}
}

func TestARefusedReaderLearnsWhenToAskAgain(t *testing.T) {
	b := servertest.Start(t)
	mine := newTenant(t, b, "acme", "lab")
	token := mine.tokens(t, b)["project_viewer of a project"]
	for range outbox.MaxEach {
		b.ProjectEvents(t, token, mine.project.ID, "")
	}
	a := b.Ask(t, token, http.MethodGet, mine.events(), nil)
	if a.Status != http.StatusTooManyRequests || a.Code() != "too_many_readers" || a.Header.Get("Retry-After") != "15" {
		t.Errorf("%d %s, Retry-After %q", a.Status, a.Body, a.Header.Get("Retry-After"))
	}
}

// A project that is far behind gets every event once, in order.
func TestAProjectThatIsFarBehindGetsEveryEvent(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100.8gpu", 1)
	mine := newTenant(t, b, "acme", "lab")
	mine.holds(t, b, "h100.8gpu")
	leads(t, b, mine.held.ID, toProvisioning, toActive)
	servertest.Must[api.PlatformAllocation](t, b, http.MethodPost, "/allocations/"+mine.held.ID+"/force-release", api.ReasonBody{Reason: "r"})
	const many = 10_000
	again := store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationAdmin, Reason: "r"}
	var changes []store.AllocationChange
	for range many / 2 {
		changes = append(changes, toReleaseFailed, again)
	}
	leads(t, b, mine.held.ID, changes...)
	got := mine.told(t, b, b.Token, many+3)
	ids := map[string]bool{}
	for i, e := range got {
		ids[e.ID] = true
		if i >= 3 && (i%2 == 1) != (e.Type == "provisioning.release_failed") {
			t.Fatalf("event %d is %s", i, e.Type)
		}
	}
	if len(got) != many+3 || len(ids) != len(got) {
		t.Errorf("%d events with %d ids", len(got), len(ids))
	}
}
