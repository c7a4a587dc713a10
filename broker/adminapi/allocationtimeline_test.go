package adminapi_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
)

// A tenant reads when its allocation reached each status and which of its own moved it. Nothing of the
// platform is in it: no name, no reason, no node, no run.
func TestATenantReadsTheTimelineOfItsAllocation(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	nodes := stocked(t, b, "h100", 1)
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100", 1)
	tokens := mine.tokens(t, b)
	made := mine.allocated(t, b, tokens["project_member of a project"], mine.asks("h100", 1))
	path := mine.allocations() + "/" + made.ID
	b.Advance(time.Second)
	leads(t, b, made.ID, toProvisioning)
	b.Advance(time.Second)
	leads(t, b, made.ID, store.AllocationChange{To: toActive.To, By: toActive.By, Reason: "run r-secret", CorrelationID: "r-secret"})
	b.Advance(time.Second)
	if a := b.Ask(t, tokens["tenant_admin"], http.MethodPost, path+"/release", api.ReasonBody{}); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	b.Advance(time.Second)
	leads(t, b, made.ID, toReleaseFailed)
	b.Advance(time.Second)
	servertest.Must[api.PlatformAllocation](t, b, http.MethodPost, "/allocations/"+made.ID+"/force-release", api.ReasonBody{Reason: "ticket secret"})

	a := b.Ask(t, tokens["project_viewer of a project"], http.MethodGet, path+"/timeline", nil)
	var got api.AllocationTimeline
	if err := json.Unmarshal(a.Body, &got); err != nil || a.Status != http.StatusOK || got.AllocationID != made.ID || got.Earlier {
		t.Fatalf("%d %s, %v", a.Status, a.Body, err)
	}
	shown := servertest.Must[api.PlatformAllocation](t, b, http.MethodGet, "/allocations/"+made.ID, nil)
	text := ""
	for i, s := range got.Items {
		text += s.Status + " " + s.By + " " + s.Code + ", "
		if i > 0 && s.At.Sub(got.Items[i-1].At) < time.Second {
			t.Errorf("%s was reached at %v, and the status before at %v", s.Status, s.At, got.Items[i-1].At)
		}
	}
	if at := got.Items; len(at) != 6 || !at[1].At.Equal(*shown.ProvisioningAt) || !at[2].At.Equal(*shown.ActiveAt) || !at[3].At.Equal(*shown.ReleasingAt) || !at[4].At.Equal(*shown.ReleaseFailedAt) {
		t.Errorf("the timeline is %+v, and the allocation %+v", got.Items, shown)
	}
	const want = "requested acme-project-member , provisioning  , active  , releasing acme-admin , release_failed  cleanup_failed, releasing  , "
	if text != want {
		t.Errorf("%s, want %s", text, want)
	}
	for _, hidden := range []string{"secret", nodes[0].NodeID, `"admin"`, "system", "dc1", "r-"} {
		if reads(string(a.Body), hidden) {
			t.Errorf("the tenant reads %q: %s", hidden, a.Body)
		}
	}
}

// reads reports whether a text has a word. A site's name of three characters may be within a random id.
func reads(text, word string) bool {
	if word == "dc1" {
		return regexp.MustCompile(`\bdc1\b`).MatchString(text)
	}
	return strings.Contains(text, word)
}
