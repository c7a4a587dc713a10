package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func frozenNow(t *testing.T, b *servertest.Broker, site string) api.FreezeStatus {
	t.Helper()
	return servertest.Must[api.FreezeStatus](t, b, http.MethodGet, "/freeze?site="+site, nil)
}

func TestWhoMayFreezeAndWhoMayLetGo(t *testing.T) {
	b := servertest.Start(t)
	for _, site := range []string{"dc1", "dc2"} {
		b.NewNode(t, api.NodeCreate{Hostname: "h-" + site, Site: site})
	}
	token := map[string]string{"admin": b.Token}
	for name, c := range map[string]api.TokenCreate{
		"viewer": {Role: "viewer"}, "op": {Role: "operator"}, "op2": {Role: "operator"}, "dc1": {Role: "operator", Sites: []string{"dc1"}},
	} {
		c.Name = name
		token[name] = b.NewToken(t, c)
	}
	for i, row := range []struct {
		who, do, site string
		code          string // of the refusal
		holds         string // the sites frozen afterwards
	}{
		{"viewer", "freeze", "", "role_insufficient", ""},
		{"viewer", "freeze", "dc1", "role_insufficient", ""},
		{"dc1", "freeze", "", "site_forbidden", ""},
		{"dc1", "freeze", "dc2", "site_forbidden", ""},
		{"op", "freeze", "dc9", "site_not_found", ""},
		{"dc1", "freeze", "dc1", "", "dc1"},
		{"viewer", "unfreeze", "dc1", "role_insufficient", "dc1"},
		{"op", "unfreeze", "dc1", "freeze_of_another", "dc1"},
		{"op", "freeze", "", "", "dc1 *"},
		{"op", "freeze", "", "", "dc1 *"},
		{"dc1", "unfreeze", "", "site_forbidden", "dc1 *"},
		{"op2", "unfreeze", "", "freeze_of_another", "dc1 *"},
		{"op", "unfreeze", "", "", "dc1"},
		{"op", "freeze", "dc1", "", "dc1 dc1"},
		{"dc1", "unfreeze", "dc1", "", "dc1"},
		{"admin", "unfreeze", "dc1", "freeze_of_another", "dc1"},
		{"op2", "force", "dc1", "freeze_of_another", "dc1"},
		{"admin", "force", "dc1", "", ""},
		{"op2", "unfreeze", "dc1", "", ""},
	} {
		var body any = api.FreezePut{Site: row.site, Reason: "because"}
		path := "/" + row.do
		if row.do == "force" {
			path, body = "/unfreeze", api.UnfreezePut{FreezePut: api.FreezePut{Site: row.site, Reason: "because"}, Force: true}
		}
		a := b.Ask(t, token[row.who], http.MethodPost, path, body)
		if a.Code() != row.code || (row.code == "") != (a.Status == http.StatusOK) {
			t.Errorf("%d: %s %ss %q: %d %s, want %q", i, row.who, row.do, row.site, a.Status, a.Body, row.code)
		}
		var have []string
		for _, h := range frozenNow(t, b, "").Holds {
			if h.Site == "" {
				h.Site = "*"
			}
			have = append(have, h.Site)
		}
		if got := strings.Join(have, " "); got != row.holds {
			t.Errorf("%d: after %s %s %q there is %q, want %q", i, row.who, row.do, row.site, got, row.holds)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/freeze", api.FreezePut{Reason: " "}); a.Code() != "reason_missing" {
		t.Errorf("without a reason: %d %s", a.Status, a.Body)
	}
}

// The freezes in force come with every list, and freezes of other sites do not.
func TestAFreezeStandsOnTopOfEveryList(t *testing.T) {
	b := servertest.Start(t)
	for _, site := range []string{"dc1", "dc2"} {
		b.NewNode(t, api.NodeCreate{Hostname: "h-" + site, Site: site})
	}
	bound := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}})
	paths := []string{"/nodes", "/tasks", "/status", "/audit?node=h-dc2", "/maas-sites", "/onboardings", "/skus", "/nodes/h-dc2", "/freeze"}
	told := func(token, want string) {
		t.Helper()
		for _, path := range paths {
			if got := b.Ask(t, token, http.MethodGet, path, nil).Header.Get(api.HeaderFrozen); got != want {
				t.Errorf("GET %s tells of %q, want %q", path, got, want)
			}
		}
	}
	told(b.Token, "")
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "a secret of dc1"})
	told(b.Token, "dc1")
	told(bound, "")
	if a := b.Ask(t, bound, http.MethodGet, "/freeze", nil); strings.Contains(string(a.Body), "dc1") {
		t.Errorf("a token of dc2 reads %s", a.Body)
	}
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Reason: "all of it"})
	told(b.Token, "dc1, *")
	told(bound, "*")
	if got := servertest.Must[api.NodeList](t, b, http.MethodGet, "/nodes", nil); len(got.Frozen) != 2 || got.Frozen[0].Reason != "a secret of dc1" || got.Frozen[1].By != "admin" {
		t.Errorf("the list of nodes carries %+v", got.Frozen)
	}
	if got := servertest.Must[api.TaskList](t, b, http.MethodGet, "/tasks", nil); len(got.Frozen) != 2 {
		t.Errorf("the list of tasks carries %+v", got.Frozen)
	}
	if got := servertest.Must[api.OnboardingList](t, b, http.MethodGet, "/onboardings", nil); len(got.Frozen) != 2 {
		t.Errorf("the list of onboardings carries %+v", got.Frozen)
	}
	for _, path := range []string{"/maas-sites", "/skus", "/audit", "/tokens", "/task-types", "/agent-releases", "/nodes/h-dc1/devices"} {
		if got := servertest.Must[api.Standing](t, b, http.MethodGet, path, nil); len(got.Frozen) != 2 {
			t.Errorf("GET %s carries %+v", path, got.Frozen)
		}
	}
}

// Every answer with items has a field for the freezes in force, by the API's own description. The
// lists of tenants have none: sites are nothing that a tenant sees.
func TestEveryListHasRoomForWhatStands(t *testing.T) {
	b := servertest.Start(t)
	var spec struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage `json:"properties"`
			} `json:"schemas"`
		} `json:"components"`
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/openapi.json", nil).Body, &spec); err != nil {
		t.Fatal(err)
	}
	lists := 0
	for path, methods := range spec.Paths {
		for name, schema := range spec.Components.Schemas {
			if schema.Properties["items"] == nil || !strings.Contains(string(methods["get"]), `/schemas/`+name+`"`) {
				continue
			}
			lists++
			if says := schema.Properties["frozen"] != nil; says != strings.HasPrefix(path, api.Prefix+"/") {
				t.Errorf("GET %s answers %s; that it can say what is frozen is %t", path, name, says)
			}
		}
	}
	if lists < 12 {
		t.Errorf("only %d lists were looked at", lists)
	}
}

// TestAnUnfreezeWakesTheNodeThatWaits has a node poll through a freeze and a restart. The node gets
// the probe meanwhile, and the scrub at once afterwards.
func TestAnUnfreezeWakesTheNodeThatWaits(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	freeze := servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "r"})
	if !freeze.Changed || freeze.DestructiveTasks != 0 {
		t.Errorf("freezing answered %+v", freeze)
	}
	held := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.storage_cleanup", Params: []byte(`{"scope":"local"}`)})
	probe := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	if d, _ := n.Next(t); d.TaskID != probe.ID {
		t.Fatalf("it got %s, want the probe", d.TaskID)
	}
	got := make(chan wire.Delivery, 1)
	go func() {
		d, _ := n.Next(t)
		got <- d
	}()
	servertest.Eventually(t, "the node to poll", func() bool {
		return strings.Contains(string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body), "hostler_waiting_polls 1")
	})
	if k := servertest.Must[api.Task](t, b, http.MethodGet, "/tasks/"+held.ID, nil); k.Status != "queued" {
		t.Errorf("during the freeze it is %s", k.Status)
	}
	servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/unfreeze", api.FreezePut{Site: "dc1", Reason: "r"})
	if d := <-got; d.TaskID != held.ID {
		t.Errorf("it got %s", d.TaskID)
	}
	again := servertest.Must[api.FreezeResult](t, b, http.MethodPost, "/freeze", api.FreezePut{Site: "dc1", Reason: "r"})
	if again.DestructiveTasks != 1 {
		t.Errorf("freezing while it runs answered %+v", again)
	}
}

func TestAFreezeSurvivesTheBroker(t *testing.T) {
	first := servertest.Start(t)
	servertest.Must[api.FreezeResult](t, first, http.MethodPost, "/freeze", api.FreezePut{Reason: "the roof leaks"})
	if got := frozenNow(t, first.Again(t), ""); len(got.Holds) != 1 || got.Holds[0].Reason != "the roof leaks" {
		t.Errorf("after the restart there is %+v", got)
	}
}
