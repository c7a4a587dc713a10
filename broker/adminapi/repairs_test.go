package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// A token of another site neither reads the repairs of a node nor records any, nor links the node with another one.
func TestARepairBelongsToTheSiteOfItsNode(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"})
	b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc2"})
	row := api.RepairAdd{Node: "h1", Category: "gpu", Action: "replaced", Part: "gpu", OldSerial: "s-1", NewSerial: "s-2"}
	servertest.Must[api.RepairsResult](t, b, http.MethodPost, "/repairs", api.RepairsAdd{Items: []api.RepairAdd{row}})
	other := b.NewToken(t, api.TokenCreate{Name: "olga", Role: string(broker.RoleOperator), Sites: []string{"dc2"}})
	nowhere := row
	nowhere.Node = ""
	for _, ask := range []struct {
		name, path, code string
		body             any
	}{
		{"a repair", "/repairs", "node_not_found", api.RepairsAdd{Items: []api.RepairAdd{row}}},
		{"a repair of no node", "/repairs", "site_forbidden", api.RepairsAdd{Items: []api.RepairAdd{nowhere}}},
		{"the old machine", "/host-replacements", "node_not_found", api.HostReplace{Old: "h1", New: "h2", Reason: "r"}},
		{"the new machine", "/host-replacements", "node_not_found", api.HostReplace{Old: "h2", New: "h1", Reason: "r"}},
	} {
		if a := b.Ask(t, other, http.MethodPost, ask.path, ask.body); a.Code() != ask.code {
			t.Errorf("%s: %d %s", ask.name, a.Status, a.Body)
		}
	}
	for who, want := range map[string]int{other: 0, b.Token: 1} {
		var list api.RepairList
		a := b.Ask(t, who, http.MethodGet, "/repairs?serial=s-1", nil)
		if err := json.Unmarshal(a.Body, &list); err != nil || a.Status != http.StatusOK || len(list.Items) != want {
			t.Errorf("found are %d %s, want %d", a.Status, a.Body, want)
		}
	}
}

// A row that cannot be recorded says which it is, and nothing of its list is recorded. Both machines of a replacement name each other.
func TestRepairsAreRecordedWholly(t *testing.T) {
	b := servertest.Start(t)
	old := b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"})
	later := b.NewNode(t, api.NodeCreate{Hostname: "h2", Site: "dc1"})
	good := api.RepairAdd{Node: "h1", Category: "gpu", Action: "replaced", Part: "gpu", OldSerial: "s-1", NewSerial: "s-2"}
	bad := good
	bad.NewSerial, bad.Line = "s-1", 7
	if a := b.Ask(t, b.Token, http.MethodPost, "/repairs", api.RepairsAdd{Items: []api.RepairAdd{good, bad}}); a.Code() != "repair_invalid" ||
		!strings.Contains(string(a.Body), "line 7") {
		t.Errorf("a bad row: %d %s", a.Status, a.Body)
	}
	if list := servertest.Must[api.RepairList](t, b, http.MethodGet, "/repairs", nil); len(list.Items) != 0 {
		t.Errorf("recorded are %+v", list.Items)
	}
	servertest.Must[api.HostReplacement](t, b, http.MethodPost, "/host-replacements", api.HostReplace{Old: "h1", New: "h2", Reason: "r"})
	if n := servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/"+old.NodeID, nil); n.ReplacedBy != later.NodeID || n.Replaces != "" {
		t.Errorf("the old machine is %+v", n.NodeOrigin)
	}
	if n := servertest.Must[api.Node](t, b, http.MethodGet, "/nodes/"+later.NodeID, nil); n.Replaces != old.NodeID || n.ReplacedBy != "" {
		t.Errorf("the new machine is %+v", n.NodeOrigin)
	}
}
