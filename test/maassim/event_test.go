package maassim_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/canonical/gomaasclient/entity"

	"github.com/hostler/hostler/test/maassim"
)

func everything(id string) *entity.EventParams {
	return &entity.EventParams{ID: id, Level: "DEBUG", Limit: "1000"}
}

func kinds(events *entity.EventsResp) []string {
	var all []string
	for _, e := range events.Events {
		all = append(all, e.Type)
	}
	return all
}

func read(t *testing.T, r *maassim.Region, path string, into any) {
	t.Helper()
	res, body := send(t, r, r.APIKey(), http.MethodGet, path, nil)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, res.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatal(err)
	}
}

// The feed describes a deployment in the order and the words of the recorded region.
func TestTheFeedTellsADeployment(t *testing.T) {
	r, clock, id := allocated(t, "3.4")
	c := dial(t, r, r.APIKey())
	if _, err := c.Machine.Deploy(id, nil); err != nil {
		t.Fatal(err)
	}
	clock.pass(maassim.Usual.Deploy)
	events, err := c.Events.Get(&entity.EventParams{ID: id, Level: "DEBUG", Limit: "5"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Deployed", "Node changed status", "Image Deployed", "Deploying", "Node changed status"}
	if got := kinds(events); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if e := events.Events[1]; e.Description != "From 'Deploying' to 'Deployed'" || e.Created != "Sat, 21 Nov. 2026 09:09:00" || string(e.Level) != "DEBUG" {
		t.Errorf("%+v", e)
	}
	if len(events.NextURI) == 0 || !strings.HasSuffix(events.NextURI, "after="+strconv.Itoa(events.Events[0].ID)) {
		t.Errorf("next_uri %s", events.NextURI)
	}
}

// Paging forward with after loses no event, whatever the limit.
func TestPagingForwardLosesNothing(t *testing.T) {
	r, clock, c := start(t, "3.6")
	enroll(t, r, clock, c, 1)
	all, err := c.Events.Get(&entity.EventParams{Level: "DEBUG", Limit: "1000"})
	if err != nil {
		t.Fatal(err)
	}
	var read []int
	for after := 0; ; {
		page, err := c.Events.Get(&entity.EventParams{Level: "DEBUG", Limit: "2", After: strconv.Itoa(after)})
		if err != nil {
			t.Fatal(err)
		}
		if page.Count == 0 {
			break
		}
		after = page.Events[0].ID
		for _, e := range slices.Backward(page.Events) {
			read = append(read, e.ID)
		}
	}
	if len(read) != all.Count || !slices.IsSorted(read) {
		t.Errorf("read %v of %d", read, all.Count)
	}
	for _, path := range []string{"events/?op=query&limit=1001", "events/?op=query&before=1&after=2", "events/?op=query&level=LOUD"} {
		if res, _ := send(t, r, r.APIKey(), http.MethodGet, path, nil); res.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
}

// An event may commit after events with higher ids, and is deleted with its machine.
func TestEventsCommitLateAndGoWithTheirMachine(t *testing.T) {
	r, clock, id := allocated(t, "3.6")
	c := dial(t, r, r.APIKey())
	r.Inject(maassim.Fault{Kind: maassim.EventsUnordered, After: time.Minute})
	if _, err := c.Machine.Deploy(id, nil); err != nil {
		t.Fatal(err)
	}
	ids := func() (all []int) {
		events, err := c.Events.Get(everything(id))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Events {
			all = append(all, e.ID)
		}
		return all
	}
	early := ids()
	clock.pass(time.Minute)
	late := ids()
	if len(late) != len(early)+1 || late[0] != early[0] || late[1] != early[0]-1 {
		t.Errorf("%v, then %v", early, late)
	}
	if err := c.Machine.Delete(id); err != nil {
		t.Fatal(err)
	}
	if left := ids(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
