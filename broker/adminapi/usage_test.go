package adminapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
)

var toReleasing = store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationUser}

// usageOf reads usage within a period; a zero time is the broker's default.
func usageOf(t *testing.T, b *servertest.Broker, token, path string, from, to time.Time, more ...string) (out api.UsageList) {
	t.Helper()
	q := url.Values{}
	for name, at := range map[string]time.Time{"from": from, "to": to} {
		if !at.IsZero() {
			q.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	for i := 0; i < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	a := b.Ask(t, token, http.MethodGet, path+"?"+q.Encode(), nil)
	if err := json.Unmarshal(a.Body, &out); err != nil || a.Status != http.StatusOK || out.Items == nil || out.Totals == nil {
		t.Fatalf("GET %s?%s: %d %s", path, q.Encode(), a.Status, a.Body)
	}
	return out
}

func allocationsOf(l api.UsageList) (ids []string) {
	for _, u := range l.Items {
		ids = append(ids, u.AllocationID)
	}
	return ids
}

// near reports whether the hours are those wanted, up to the seconds that the test itself takes.
func near(got, want float64) bool { return got >= want && got < want+0.05 }

// A project sees its own usage, and the platform that of all. Both ends are told.
func TestAProjectSeesItsUsage(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	b.OnRecord(t, "dc2")
	stocked(t, b, "h100", 3)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	mine.quota(t, b, "h100", 3)
	theirs.quota(t, b, "h100", 3)
	tokens, begun := mine.tokens(t, b), b.Now()
	b.Advance(time.Second)
	first := mine.allocated(t, b, b.Token, mine.asks("h100", 2))
	second := theirs.allocated(t, b, b.Token, theirs.asks("h100", 1))
	leads(t, b, first.ID, toProvisioning, toActive)
	b.Advance(time.Second)
	leads(t, b, second.ID, toProvisioning, toActive)
	b.Advance(2 * time.Hour)
	leads(t, b, first.ID, toReleasing)
	b.Advance(time.Hour)

	path := "/projects/" + mine.project.ID + "/usage"
	for role, token := range tokens {
		l := usageOf(t, b, token, path, begun, time.Time{})
		if len(l.Items) != 1 || l.Items[0].AllocationID != first.ID || l.Items[0].To == nil || l.Items[0].Nodes != 2 || !near(l.Items[0].Seconds/3600, 2) || l.Next != "" {
			t.Errorf("%s sees %+v", role, l)
		}
		if len(l.Totals) != 1 || l.Totals[0].ProjectID != mine.project.ID || !near(l.Totals[0].NodeHours, 4) || l.Totals[0].Allocations != 1 || l.Totals[0].InUse != 0 {
			t.Errorf("%s sees the sums %+v", role, l.Totals)
		}
	}
	all := usageOf(t, b, b.Token, "/usage", begun, b.Now().Add(100*time.Hour), "site", "dc1")
	if len(all.Totals) != 2 || len(all.Items) != 2 || all.To.After(b.Now()) {
		t.Errorf("of all it is %+v", all)
	}
	for _, u := range all.Totals {
		if u.ProjectID == theirs.project.ID && (u.InUse != 1 || !near(u.NodeHours, 3)) {
			t.Errorf("what is in use counts until now: %+v", u)
		}
	}
	page := usageOf(t, b, b.Token, "/usage", begun, all.To, "limit", "1")
	rest := usageOf(t, b, b.Token, "/usage", begun, all.To, "limit", "1", "cursor", page.Next)
	if got := append(allocationsOf(page), allocationsOf(rest)...); !slices.Equal(got, []string{first.ID, second.ID}) || rest.Next != "" {
		t.Errorf("pages: %v, then %q", got, rest.Next)
	}
	if len(page.Totals) != 2 || len(rest.Totals) != 0 {
		t.Errorf("the pages have the sums %+v and %+v, want those of all on the first", page.Totals, rest.Totals)
	}
	if got := usageOf(t, b, tokens["project_viewer"], path, begun, time.Time{}, "cursor", second.ID); len(got.Items) != 0 {
		t.Errorf("after another project's allocation: %+v", got)
	}

	// A token of the platform that is bound to a site sees what is there alone.
	bound := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "operator", Sites: []string{"dc2"}})
	for _, path := range []string{path, "/usage"} {
		if got := usageOf(t, b, bound, path, begun, time.Time{}); len(got.Items)+len(got.Totals) != 0 {
			t.Errorf("GET %s as a token of dc2: %+v", path, got)
		}
		if a := b.Ask(t, bound, http.MethodGet, path+"?site=dc1", nil); a.Code() != "site_forbidden" {
			t.Errorf("GET %s of dc1 as a token of dc2: %d %s", path, a.Status, a.Body)
		}
	}
	// Another project has no usage: it does not exist.
	for _, ref := range []string{theirs.project.ID, "moonshot", "secret%2Fmoonshot"} {
		for role, token := range tokens {
			if a := b.Ask(t, token, http.MethodGet, "/projects/"+ref+"/usage", nil); a.Status != http.StatusNotFound || a.Code() != "project_not_found" {
				t.Errorf("usage of %s as %s: %d %s", ref, role, a.Status, a.Body)
			}
		}
	}
	servertest.Eventually(t, "both ends to be told", func() bool {
		seen := documented(t, b)
		return seen[store.UsageStartedEvent] == 2 && seen[store.UsageEndedEvent] == 1
	})
}

func TestAPeriodOfUsageIsChecked(t *testing.T) {
	b := servertest.Start(t)
	mine := newTenant(t, b, "acme", "lab")
	at := func(d time.Duration) string { return b.Now().Add(d).UTC().Format(time.RFC3339) }
	const day = 24 * time.Hour
	for query, code := range map[string]string{
		"":                      "",
		"?from=" + at(-399*day): "",
		"?from=" + at(-402*day): "period_invalid",
		"?from=" + at(day):      "period_invalid", // nothing is known of tomorrow
		"?from=" + at(-time.Hour) + "&to=" + at(-2*time.Hour): "period_invalid",
		"?from=0001-01-02T00:00:00Z":                          "period_invalid",
		"?from=yesterday":                                     "invalid_request",
	} {
		for _, path := range []string{"/usage", "/projects/" + mine.project.ID + "/usage"} {
			if a := b.Ask(t, b.Token, http.MethodGet, path+query, nil); a.Code() != code || code == "" && a.Status != http.StatusOK {
				t.Errorf("GET %s%s: %d %s, want %q", path, query, a.Status, a.Body, code)
			}
		}
	}
	// The default begins with the month in which the period ends, which the end of a month is not after.
	for to, from := range map[string]string{
		"2024-02-01T00:00:00Z": "2024-01-01T00:00:00Z", "2024-02-01T00:00:01Z": "2024-02-01T00:00:00Z", "2024-01-31T23:30:00-01:00": "2024-02-01T00:00:00Z",
	} {
		a := b.Ask(t, b.Token, http.MethodGet, "/usage?to="+url.QueryEscape(to), nil)
		if !strings.Contains(string(a.Body), `"from":"`+from+`"`) {
			t.Errorf("until %s: %d %s", to, a.Status, a.Body)
		}
	}
}
