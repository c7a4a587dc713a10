package adminapi_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/taskcatalog"
)

// stocked makes a SKU with active nodes at dc1.
func stocked(t *testing.T, b *servertest.Broker, sku string, nodes int, facts ...*taskcatalog.Facts) (made []*servertest.Node) {
	t.Helper()
	servertest.Must[api.SKU](t, b, http.MethodPost, "/skus", map[string]any{"id": sku, "images": []string{"ubuntu/noble"}})
	for i := range nodes {
		made = append(made, b.NewNode(t, api.NodeCreate{Hostname: fmt.Sprintf("gpu-%s-%d", strings.ReplaceAll(sku, ".", "-"), i), Site: "dc1", SKU: sku}, facts...).Settle(t))
	}
	return made
}

func (n tenant) quota(t *testing.T, b *servertest.Broker, sku string, nodes int) {
	t.Helper()
	servertest.Must[api.Quota](t, b, http.MethodPut, "/projects/"+n.project.ID+"/quotas/"+sku, api.QuotaPut{Nodes: nodes, GPUs: 8 * nodes})
}

func (n tenant) asks(sku string, nodes int) api.AllocationCreate {
	return api.AllocationCreate{SKU: sku, Nodes: nodes, SSHKeyIDs: []string{n.key.ID}}
}

func (n tenant) allocations() string { return "/projects/" + n.project.ID + "/allocations" }

// allocated asks for nodes, as the project's member.
func (n tenant) allocated(t *testing.T, b *servertest.Broker, token string, body api.AllocationCreate) (out api.Allocation) {
	t.Helper()
	a := b.Ask(t, token, http.MethodPost, n.allocations(), body)
	if err := json.Unmarshal(a.Body, &out); err != nil || a.Status != http.StatusCreated {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return out
}

// leads moves an allocation as the runs of the broker do.
func leads(t *testing.T, b *servertest.Broker, id string, changes ...store.AllocationChange) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: server.StoreURL(b.Dir, ""), Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, c := range changes {
		if _, err := db.TransitionAllocation(t.Context(), broker.System, id, c); err != nil {
			t.Fatal(err)
		}
	}
}

// undisturbed keeps the broker from provisioning what is requested, so that leads alone does: a broker that has asked a
// node for the account gives the node back by a turnover.
func undisturbed(t *testing.T, b *servertest.Broker) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, "hostler.db")+"?_pragma=busy_timeout(10000)")
	if err == nil {
		_, err = db.ExecContext(t.Context(), `CREATE TRIGGER undisturbed AFTER INSERT ON chain_runs WHEN NEW.kind = 'allocation.provision'
			BEGIN UPDATE chain_runs SET due_at = 9000000000000000 WHERE id = NEW.id; END`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

var (
	toProvisioning  = store.AllocationChange{To: broker.AllocationProvisioning, By: broker.AllocationWorker}
	toActive        = store.AllocationChange{To: broker.AllocationActive, By: broker.AllocationWorker}
	toReleaseFailed = store.AllocationChange{To: broker.AllocationReleaseFailed, By: broker.AllocationWorker, Code: "cleanup_failed"}
	toFailed        = store.AllocationChange{To: broker.AllocationFailed, By: broker.AllocationWorker, Code: "ssh_unreachable"}
)

// A member asks for nodes, sees where to log in, and releases them. The tenant sees no node's id.
func TestAMemberAsksForNodesAndReleasesThem(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	nodes := stocked(t, b, "h100.8gpu", 2)
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100.8gpu", 2)
	tokens := mine.tokens(t, b)
	member, viewer := tokens["project_member of a project"], tokens["project_viewer of a project"]

	ask := mine.asks("h100.8gpu", 2)
	ask.Labels, ask.EndsAt = map[string]string{"team": "vision"}, b.Now().Add(time.Hour+time.Nanosecond).In(time.FixedZone("", 7200))
	made := mine.allocated(t, b, member, ask)
	if made.ProjectID != mine.project.ID || made.Nodes != 2 || made.GPUs != 0 || made.Site != "dc1" || made.SKU != "h100.8gpu" || made.Image != "" ||
		!slices.Equal(made.SSHKeyIDs, []string{mine.key.ID}) || made.Labels["team"] != "vision" || made.EndsAt == nil || made.ActiveAt != nil ||
		made.Message != "" || !strings.HasPrefix(made.ID, "alc-") {
		t.Errorf("%+v", made)
	}
	path := mine.allocations() + "/" + made.ID
	if a := b.Ask(t, member, http.MethodPost, path+"/release", api.ReasonBody{}); a.Code() != "transition_refused" || !strings.Contains(string(a.Body), "wait until") {
		t.Errorf("released before it was active: %d %s", a.Status, a.Body)
	}
	leads(t, b, made.ID, toProvisioning, toActive)

	a := b.Ask(t, viewer, http.MethodGet, path, nil)
	var seen api.Allocation
	if err := json.Unmarshal(a.Body, &seen); err != nil || seen.Status != "active" || len(seen.Logins) != 2 || seen.Logins[0] != (api.AllocationLogin{Hostname: "gpu-h100-8gpu-0", Username: "tenant"}) {
		t.Errorf("%d %s, %v", a.Status, a.Body, err)
	}
	if made.EndsAt.Format(time.RFC3339Nano) != seen.EndsAt.Format(time.RFC3339Nano) {
		t.Errorf("it was answered to end at %v, and is shown to end at %v", made.EndsAt, seen.EndsAt)
	}
	for _, n := range nodes {
		if strings.Contains(string(a.Body), n.NodeID) {
			t.Errorf("the tenant sees the node's id: %s", a.Body)
		}
	}
	if got := servertest.Must[api.PlatformAllocation](t, b, http.MethodGet, "/allocations/"+made.ID, nil); len(got.NodeIDs) != 2 || got.ProjectID != mine.project.ID {
		t.Errorf("the platform sees %+v", got)
	}

	if a := b.Ask(t, viewer, http.MethodPost, path+"/release", api.ReasonBody{}); a.Code() != "role_insufficient" {
		t.Errorf("a viewer releases: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, viewer, http.MethodPost, mine.allocations(), mine.asks("h100.8gpu", 1)); a.Code() != "role_insufficient" {
		t.Errorf("a viewer asks: %d %s", a.Status, a.Body)
	}
	released := func(as, path, want string) {
		t.Helper()
		a := b.Ask(t, as, http.MethodPost, path, api.ReasonBody{Reason: "done"})
		if a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"status":"`+want+`"`) {
			t.Errorf("POST %s: %d %s, want %s", path, a.Status, a.Body, want)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, path+"/release", api.ReasonBody{}); a.Code() != "reason_missing" {
		t.Errorf("the platform releases without a reason: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, member, http.MethodPost, path+"/release", api.ReasonBody{}); a.Status != http.StatusOK {
		t.Errorf("a member without a reason: %d %s", a.Status, a.Body)
	}
	for range 2 {
		released(member, path+"/release", "releasing")
	}
	leads(t, b, made.ID, toReleaseFailed)
	if a := b.Ask(t, member, http.MethodGet, path, nil); !strings.Contains(string(a.Body), `"code":"cleanup_failed"`) || !strings.Contains(string(a.Body), "release it again") || !strings.Contains(string(a.Body), `"logins":[]`) {
		t.Errorf("after a failed release: %s", a.Body)
	}
	released(member, path+"/release", "releasing")
	leads(t, b, made.ID, toReleaseFailed)
	released(b.Token, "/allocations/"+made.ID+"/force-release", "releasing")
	if a := b.Ask(t, b.Token, http.MethodPost, "/allocations/"+made.ID+"/force-release", api.ReasonBody{}); a.Code() != "reason_missing" {
		t.Errorf("forced without a reason: %d %s", a.Status, a.Body)
	}
	owners := ""
	for _, row := range servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=allocation.transition&limit=100", nil).Items {
		if strings.Contains(string(row.After), `"releasing"`) {
			var after struct{ Owner string }
			_ = json.Unmarshal(row.After, &after)
			owners += after.Owner + " " + row.Reason + ", "
		}
	}
	if owners != "admin done, user done, user , " {
		t.Errorf("the audit log has the releases %q", owners)
	}
}

func TestAllocationsAreListedByFilter(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100", 2)
	stocked(t, b, "h200", 1)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	for _, sku := range []string{"h100", "h200"} {
		mine.quota(t, b, sku, 1)
		theirs.quota(t, b, sku, 1)
	}
	member := mine.tokens(t, b)["project_member"]
	labelled := mine.asks("h100", 1)
	labelled.Labels = map[string]string{"team": "vision", "tier": "gold"}
	first := mine.allocated(t, b, member, labelled)
	b.Advance(time.Second)
	second := mine.allocated(t, b, member, mine.asks("h200", 1))
	b.Advance(time.Second)
	third := theirs.allocated(t, b, b.Token, theirs.asks("h100", 1))
	leads(t, b, first.ID, toProvisioning, toFailed)

	for query, want := range map[string][]string{
		"":                                       {second.ID, first.ID},
		"?sku=h100":                              {first.ID},
		"?status=failed":                         {first.ID},
		"?status=active,released":                nil,
		"?site=dc1":                              {second.ID, first.ID},
		"?site=dc2":                              nil,
		"?label=team%3Dvision&label=tier%3Dgold": {first.ID},
		"?label=team%3Dother":                    nil,
		"?limit=1":                               {second.ID},
		"?limit=1&cursor=" + second.ID:           {first.ID},
		"?cursor=" + third.ID:                    nil, // another project's
	} {
		a := b.Ask(t, member, http.MethodGet, mine.allocations()+query, nil)
		var page api.AllocationList
		var got []string
		err := json.Unmarshal(a.Body, &page)
		for _, i := range page.Items {
			got = append(got, i.ID)
		}
		if err != nil || !slices.Equal(got, want) || page.Items == nil || (page.Next != "") != (query == "?limit=1") {
			t.Errorf("%s: %s, want %v", query, a.Body, want)
		}
	}
	for query, code := range map[string]string{"?status=done": "status_unknown", "?label=team": "label_invalid"} {
		if a := b.Ask(t, member, http.MethodGet, mine.allocations()+query, nil); a.Code() != code {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	all := servertest.Must[api.PlatformAllocationList](t, b, http.MethodGet, "/allocations", nil)
	if len(all.Items) != 3 || all.Items[0].ID != third.ID || len(all.Items[0].NodeIDs) != 1 {
		t.Errorf("%+v", all)
	}
	if got := servertest.Must[api.PlatformAllocationList](t, b, http.MethodGet, "/allocations?project=secret%2Fmoonshot", nil); len(got.Items) != 1 {
		t.Errorf("%+v", got)
	}

	// A token of the platform that is bound to a site sees what is there alone.
	bound := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "operator", Sites: []string{"dc2"}})
	for path, want := range map[string]string{
		mine.allocations() + "/" + first.ID: "allocation_not_found",
		"/allocations/" + second.ID:         "allocation_not_found",
		"/allocations?site=dc1":             "site_forbidden",
		"/allocations":                      "",
		mine.allocations():                  "",
	} {
		a := b.Ask(t, bound, http.MethodGet, path, nil)
		if a.Code() != want || want == "" && !strings.Contains(string(a.Body), `"items":[]`) {
			t.Errorf("GET %s as a token of dc2: %d %s", path, a.Status, a.Body)
		}
	}
}

// Nothing of a refused request stays: not one row.
func TestWhatAnAllocationCannotBeAskedFor(t *testing.T) {
	b := servertest.Start(t)
	stocked(t, b, "h100", 1)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	mine.quota(t, b, "h100", 5)
	token := mine.tokens(t, b)["project_member of a project"]
	for what, row := range map[string]struct {
		change func(*api.AllocationCreate)
		code   string
	}{
		"no key":                    {func(c *api.AllocationCreate) { c.SSHKeyIDs = []string{} }, "allocation_invalid"},
		"a null for the keys":       {func(c *api.AllocationCreate) { c.SSHKeyIDs = nil }, "invalid_request"},
		"another project's key":     {func(c *api.AllocationCreate) { c.SSHKeyIDs = append(c.SSHKeyIDs, theirs.key.ID) }, "ssh_key_not_found"},
		"a key that never was":      {func(c *api.AllocationCreate) { c.SSHKeyIDs = []string{"key-\x1b[31m<b>"} }, "ssh_key_not_found"},
		"too many keys":             {func(c *api.AllocationCreate) { c.SSHKeyIDs = make([]string, 65) }, "invalid_request"},
		"no SKU of that id":         {func(c *api.AllocationCreate) { c.SKU = "h900" }, "sku_unavailable"},
		"a hostile SKU":             {func(c *api.AllocationCreate) { c.SKU = "<script>\x1b[31m" }, "sku_unavailable"},
		"no such site":              {func(c *api.AllocationCreate) { c.Site = "dc9" }, "sku_unavailable"},
		"an image of the SKU":       {func(c *api.AllocationCreate) { c.Image = "ubuntu/noble" }, "sku_unavailable"},
		"a hostile image":           {func(c *api.AllocationCreate) { c.Image = "<script>" }, "sku_unavailable"},
		"more than there are":       {func(c *api.AllocationCreate) { c.Nodes = 2 }, "sku_unavailable"},
		"more than the quota":       {func(c *api.AllocationCreate) { c.Nodes = 6 }, "quota_exceeded"},
		"neither nodes nor GPUs":    {func(c *api.AllocationCreate) { c.Nodes = 0 }, "allocation_invalid"},
		"nodes and GPUs":            {func(c *api.AllocationCreate) { c.GPUs = 1 }, "allocation_invalid"},
		"fewer than none":           {func(c *api.AllocationCreate) { c.Nodes = -1 }, "invalid_request"},
		"an end that has passed":    {func(c *api.AllocationCreate) { c.EndsAt = b.Now().Add(-time.Minute) }, "allocation_invalid"},
		"a label of markup":         {func(c *api.AllocationCreate) { c.Labels = map[string]string{"<b>": "x"} }, "label_invalid"},
		"a label's value of codes":  {func(c *api.AllocationCreate) { c.Labels = map[string]string{"a": "\x1b[31m"} }, "label_invalid"},
		"a label's value of quotes": {func(c *api.AllocationCreate) { c.Labels = map[string]string{"a": "'; DROP TABLE nodes --"} }, "label_invalid"},
		"a long label":              {func(c *api.AllocationCreate) { c.Labels = map[string]string{strings.Repeat("a", 64): "x"} }, "label_invalid"},
		"too many labels": {func(c *api.AllocationCreate) {
			c.Labels = map[string]string{}
			for i := range 65 {
				c.Labels[fmt.Sprint("l", i)] = "x"
			}
		}, "label_invalid"},
	} {
		ask := mine.asks("h100", 1)
		row.change(&ask)
		b.Advance(time.Second)
		a := b.Ask(t, token, http.MethodPost, mine.allocations(), ask)
		if a.Code() != row.code || a.Status >= 500 || strings.ContainsAny(string(a.Body), "<\x1b") || strings.Contains(string(a.Body), theirs.project.Name) {
			t.Errorf("%s: %d %s, want %s", what, a.Status, a.Body, row.code)
		}
	}
	if all := servertest.Must[api.PlatformAllocationList](t, b, http.MethodGet, "/allocations", nil); len(all.Items) > 0 {
		t.Errorf("refused requests left %+v", all.Items)
	}
	mine.allocated(t, b, token, mine.asks("h100", 1)) // the node was claimed by none of them
}

// A repeated request under its key is the same allocation, for the same token alone.
func TestAnAllocationThatIsAskedAgainUnderItsKeyIsTheSame(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100", 4)
	mine, theirs := newTenant(t, b, "acme", "lab"), newTenant(t, b, "secret", "moonshot")
	mine.quota(t, b, "h100", 2)
	theirs.quota(t, b, "h100", 1)
	token := mine.tokens(t, b)["project_member of a project"]
	once := func(key, token string, at tenant, body api.AllocationCreate) (id string, a servertest.Answer) {
		t.Helper()
		a = b.AskOnce(t, key, token, http.MethodPost, at.allocations(), body)
		var out api.Allocation
		if a.Status == http.StatusCreated {
			_ = json.Unmarshal(a.Body, &out)
		}
		return out.ID, a
	}
	first, a := once("k1", token, mine, mine.asks("h100", 1))
	if first == "" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if again, a := once("k1", token, mine, mine.asks("h100", 1)); again != first {
		t.Errorf("asked again it is %d %s, and was %s", a.Status, a.Body, first)
	}
	if _, a := once("k1", token, mine, mine.asks("h100", 2)); a.Code() != "idempotency_conflict" {
		t.Errorf("another body: %d %s", a.Status, a.Body)
	}
	if id, a := once("k1", b.Token, theirs, theirs.asks("h100", 1)); id == "" || id == first {
		t.Errorf("another project's key of the same name: %d %s", a.Status, a.Body)
	}
	if _, a := once("k1", b.Token, mine, mine.asks("h100", 1)); a.Code() != "idempotency_conflict" {
		t.Errorf("a key of another project, by the same token: %d %s", a.Status, a.Body)
	}
	second, a := once("k2", token, mine, mine.asks("h100", 1))
	if second == "" || second == first {
		t.Errorf("a key of its own: %d %s", a.Status, a.Body)
	}
	if _, a := once("k3", token, mine, mine.asks("h100", 1)); a.Code() != "quota_exceeded" {
		t.Errorf("beyond the quota: %d %s", a.Status, a.Body)
	}
	// The answer to a repeated request is the allocation as it is now.
	leads(t, b, first, toProvisioning, toFailed)
	if again, a := once("k1", token, mine, mine.asks("h100", 1)); again != first || !strings.Contains(string(a.Body), `"status":"failed"`) {
		t.Errorf("asked again it is %d %s", a.Status, a.Body)
	}
}

// Fifty requests race for a quota of three, with and without keys of their own.
func TestAQuotaThatIsRacedIsKept(t *testing.T) {
	b := servertest.Start(t)
	stocked(t, b, "h100", 5)
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100", 3)
	token := mine.tokens(t, b)["project_member"]
	codes, all := make([]string, 50), sync.WaitGroup{}
	for i := range codes {
		all.Go(func() {
			a := b.AskOnce(t, fmt.Sprint("k", i), token, http.MethodPost, mine.allocations(), mine.asks("h100", 1))
			codes[i] = a.Code()
			if a.Status == http.StatusCreated {
				codes[i] = "made"
			}
		})
	}
	all.Wait()
	counts := map[string]int{}
	for _, c := range codes {
		counts[c]++
	}
	if made := counts["made"]; made > 3 || made+counts["quota_exceeded"]+counts["rate_limited"] != 50 || made < 1 {
		t.Errorf("the answers are %v", counts)
	}
	if all := servertest.Must[api.PlatformAllocationList](t, b, http.MethodGet, "/allocations", nil); len(all.Items) != counts["made"] {
		t.Errorf("there are %d allocations, and %d were answered", len(all.Items), counts["made"])
	}
}

// The status names sites with allocations whose release failed.
func TestTheStatusTellsOfReleasesThatFailed(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100", 1)
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100", 1)
	made := mine.allocated(t, b, mine.tokens(t, b)["project_member"], mine.asks("h100", 1))
	leads(t, b, made.ID, toProvisioning, toActive, store.AllocationChange{To: broker.AllocationReleasing, By: broker.AllocationUser}, toReleaseFailed)
	var said []string
	for _, a := range servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil).Alerts {
		if a.Code == "release_failed" {
			said = append(said, a.Message)
		}
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "site dc1: 1 allocations hold their nodes") {
		t.Errorf("the alerts are %q", said)
	}
}

// A tenant is told which of its keys no node accepts, also when the allocation failed by them.
func TestATenantIsToldWhichKeysAreRefused(t *testing.T) {
	b := servertest.Start(t)
	undisturbed(t, b)
	stocked(t, b, "h100", 1)
	mine := newTenant(t, b, "acme", "lab")
	mine.quota(t, b, "h100", 1)
	member := mine.tokens(t, b)["project_member"]
	made := mine.allocated(t, b, member, mine.asks("h100", 1))
	if len(made.RefusedKeys) > 0 {
		t.Fatalf("before: %+v", made.RefusedKeys)
	}
	db, err := store.Open(t.Context(), store.Options{URL: server.StoreURL(b.Dir, ""), Now: b.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	of, err := db.Allocation(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.NoteRefusedKeys(t.Context(), of.ID, of.NodeIDs[0], []string{mine.key.Fingerprint}); err != nil {
		t.Fatal(err)
	}
	leads(t, b, made.ID, toProvisioning, store.AllocationChange{To: broker.AllocationFailed, By: broker.AllocationWorker, Code: broker.AllocationKeysRefused})
	got := b.Ask(t, member, http.MethodGet, mine.allocations()+"/"+made.ID, nil)
	var seen api.Allocation
	if err := json.Unmarshal(got.Body, &seen); err != nil || len(seen.RefusedKeys) != 1 || seen.RefusedKeys[0] != (api.AllocationKey{ID: mine.key.ID, Fingerprint: mine.key.Fingerprint}) {
		t.Errorf("the tenant sees %s (%v)", got.Body, err)
	}
	if seen.Code != "ssh_keys_refused" || !strings.Contains(seen.Message, "accepts none of the keys") {
		t.Errorf("the tenant is told %q: %s", seen.Code, seen.Message)
	}
}
