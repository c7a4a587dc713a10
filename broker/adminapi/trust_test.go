package adminapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// A node with allow: probe refuses each trust bundle, and a rotation stays open.
func TestANodeThatRefusesTheTrustBundleIsNamedWithWhatToDo(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "gpu-07", Site: "dc1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "gpu-08", Site: "dc2"}).Settle(t)
	elsewhere := b.NewToken(t, api.TokenCreate{Name: "dc2", Role: "viewer", Sites: []string{"dc2"}, TTLSeconds: 3600})
	refused := func(s api.Status) *api.Alert {
		i := slices.IndexFunc(s.Alerts, func(a api.Alert) bool { return a.Code == "trust_refused" })
		if i < 0 {
			return nil
		}
		return &s.Alerts[i]
	}

	servertest.Must[api.Trust](t, b, http.MethodPost, "/trust/rotate", api.TrustRotate{Use: "task", Reason: "yearly"})
	if a := refused(servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil)); a != nil {
		t.Errorf("a node that was not asked yet is said to refuse: %+v", a)
	}
	d, task := n.Next(t)
	if task.Type != "node.trust_update" {
		t.Fatalf("the node was sent %s", task.Type)
	}
	n.Fail(t, d, task, taskcatalog.CodeNotAllowed, "the class of node.trust_update@1 is mutating, and this node allows probe (see allow: in the agent's config file)")

	trust := servertest.Must[api.Trust](t, b, http.MethodGet, "/trust", nil)
	i := slices.IndexFunc(trust.Stragglers, func(s api.Straggler) bool { return s.Hostname == "gpu-07" })
	if i < 0 || trust.Stragglers[i].RefusedCode != "not_allowed" || !strings.Contains(trust.Stragglers[i].NextAction, "allow:") {
		t.Errorf("stragglers: %+v", trust.Stragglers)
	}
	a := refused(servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil))
	if a == nil || !strings.Contains(a.Message, "gpu-07 (not_allowed)") || strings.Contains(a.Message, "gpu-08") || time.Since(a.Since) > time.Hour {
		t.Errorf("the status says %+v", a)
	}
	if a := refused(servertest.Must[api.Status](t, b, http.MethodGet, "/status?site=dc2", nil)); a != nil {
		t.Errorf("another site's status says %+v", a)
	}
	if answer := b.Ask(t, elsewhere, http.MethodGet, "/status", nil); strings.Contains(string(answer.Body), "trust_refused") {
		t.Errorf("a token of another site reads %s", answer.Body)
	}
}
