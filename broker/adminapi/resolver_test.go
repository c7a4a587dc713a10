package adminapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/resolver-profiles/profilestest"
)

// shipped is the set that comes with Hostler, as JSON.
func shipped(t *testing.T) json.RawMessage {
	t.Helper()
	set, problems := profiles.Parse(profilestest.Shipped()...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	raw, err := set.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestASetThatNoNodeWouldTakeIsNotKept(t *testing.T) {
	b := servertest.Start(t)
	good := string(shipped(t))
	for name, raw := range map[string]string{
		"a shell":         strings.Replace(good, "/usr/bin/nvidia-smi", "/bin/sh", 1),
		"a relative path": strings.Replace(good, "/usr/bin/nvidia-smi", "nvidia-smi", 1),
		"a key more":      strings.Replace(good, "{", `{"shell":true,`, 1),
		"no set":          `[]`,
		"no fallback":     `{"hardware_profiles":[{"name":"x","match":{"gpu.vendor":["nvidia"]},"overrides":{}}],"command_profiles":[]}`,
	} {
		a := b.Ask(t, b.Token, http.MethodPost, "/resolver/sets", api.ResolverPush{Version: "v1", Profiles: json.RawMessage(raw)})
		if a.Code() != "resolver_profiles_invalid" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if all := servertest.Must[api.ResolverSetList](t, b, http.MethodGet, "/resolver/sets", nil); len(all.Items) != 0 {
		t.Errorf("kept: %+v", all.Items)
	}
}

func TestAPushIsForTheNodesThatItsSelectorMeans(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc2"}).Settle(t)
	servertest.Must[api.ResolverSet](t, b, http.MethodPost, "/resolver/sets", api.ResolverPush{Version: "v1", Profiles: shipped(t)})
	want := servertest.Must[api.ResolverWant](t, b, http.MethodPost, "/resolver/wants", api.ResolverWantPut{Selector: "h1", Version: "v1", Reason: "first"})
	if want.Selector != n.NodeID || want.Nodes != 1 || want.Confirmed != 0 {
		t.Errorf("%+v", want)
	}
	r := servertest.Must[api.NodeResolver](t, b, http.MethodGet, "/nodes/h1/resolver", nil)
	if r.Wanted != "v1" || r.InForce != "" || r.Confirmed || r.Want == nil {
		t.Errorf("%+v", r)
	}
	if r := servertest.Must[api.NodeResolver](t, b, http.MethodGet, "/nodes/h2/resolver", nil); r.Wanted != "" || !r.Confirmed {
		t.Errorf("another node: %+v", r)
	}
	for code, put := range map[string]api.ResolverWantPut{
		"selector_invalid":         {Selector: "status=active", Version: "v1"},
		"node_not_found":           {Selector: "h9", Version: "v1"},
		"resolver_version_unknown": {Selector: "all", Version: "v9"},
	} {
		if a := b.Ask(t, b.Token, http.MethodPost, "/resolver/wants", put); a.Code() != code {
			t.Errorf("%+v: %d %s", put, a.Status, a.Body)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/nodes/h1/resolver/rollback", api.ResolverRollback{}); a.Code() != "resolver_nothing_before" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestExplainSaysWhichRuleWinsAndWhy(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	e := servertest.Must[api.ResolverExplanation](t, b, http.MethodGet, "/nodes/h1/resolver/explain?step=gpu.scrub.overwrite", nil)
	if e.Code != profiles.CodeProfileMissing || !slices.ContainsFunc(e.Rules, func(r api.ResolverRule) bool { return r.Won }) {
		t.Errorf("a node with the compiled-in set: %+v", e)
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/nodes/h1/resolver/explain?step=sh.run", nil); a.Code() != "unknown_step" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// An operator cannot decide by any route which programs run as root on a node. Nor can an operator
// choose the agent, beyond the request for an update.
func TestAnOperatorCannotChangeProgramsByATask(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	servertest.Must[api.ResolverSet](t, b, http.MethodPost, "/resolver/sets", api.ResolverPush{Version: "v1", Profiles: shipped(t)})
	operator := b.NewToken(t, api.TokenCreate{Name: "olga", Role: "operator"})
	for _, params := range []string{`{"version":"v1"}`, `{"action":"rollback"}`} {
		a := b.Ask(t, operator, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.resolver_config", Params: json.RawMessage(params)})
		if a.Code() != "role_insufficient" {
			t.Errorf("%s: %d %s", params, a.Status, a.Body)
		}
	}
	for _, params := range []string{`{"phase":"update","version":"1.0.0"}`, `{"phase":"rollback"}`} {
		a := b.Ask(t, operator, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.self_update", Params: json.RawMessage(params)})
		if a.Code() != "role_insufficient" {
			t.Errorf("%s: %d %s", params, a.Status, a.Body)
		}
	}
	servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.resolver_config", Params: json.RawMessage(`{"version":"v1"}`)})
}
