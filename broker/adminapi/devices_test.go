package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestAReplacedPartIsShownUntilAnOperatorAcceptsItWithAReason(t *testing.T) {
	b := servertest.Start(t)
	enrol := func(token string, gpus int) *servertest.Node {
		t.Helper()
		f := servertest.H100s(gpus + 1)
		f.GPUs = f.GPUs[gpus-1:]
		return b.EnrollMachine(t, token, "h1", "", f)
	}
	b.OnRecord(t, "dc1")
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1", Site: "dc1"})
	enrol(boot.Token, 1).Settle(t) // GPU 0 and 1
	n := show(t, b, "h1")
	if n.Status != "active" || len(n.Devices) != 2 || n.Devices[0].State != "found" || n.Devices[0].ID != "GPU-00000000" || n.Devices[0].Serial != "1640000000" || n.AccessMethod != "node_agent" {
		t.Fatalf("let in, it is %s with %+v", n.Status, n.Devices)
	}
	again := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes/h1/token", api.TokenRequest{Reason: "board replaced"})
	enrol(again.Token, 2) // GPU 1 and 2
	status := servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil)
	if len(status.Devices) != 1 || status.Devices[0].Hostname != "h1" || status.Devices[0].Missing != 1 || status.Devices[0].Unexpected != 1 {
		t.Errorf("the status says %+v", status.Devices)
	}
	if n := show(t, b, "h1"); n.Status != "active" {
		t.Errorf("a node with another part is %s", n.Status)
	}

	viewer := b.NewToken(t, api.TokenCreate{Name: "ann", Role: "viewer"})
	swap := api.DeviceAccept{Devices: []string{"1640000000", "GPU-00000002"}, Reason: "RMA 7"}
	for want, row := range map[string]struct {
		token string
		body  api.DeviceAccept
	}{
		"role_insufficient": {viewer, swap},
		"reason_missing":    {b.Token, api.DeviceAccept{Devices: swap.Devices, Reason: " \n"}},
		"device_unknown":    {b.Token, api.DeviceAccept{Devices: []string{"GPU-00000002", "other"}, Reason: "r"}},
		"device_not_wrong":  {b.Token, api.DeviceAccept{Devices: []string{"GPU-00000002", "GPU-00000001"}, Reason: "r"}},
	} {
		if a := b.Ask(t, row.token, http.MethodPost, "/nodes/h1/devices/accept", row.body); a.Code() != want {
			t.Errorf("want %s: %d %s", want, a.Status, a.Body)
		}
	}
	l := servertest.Must[api.NodeDeviceList](t, b, http.MethodPost, "/nodes/h1/devices/accept", swap)
	var words []string
	for _, d := range l.Items {
		words = append(words, d.ID+":"+d.State+":"+d.Reason)
	}
	if got := strings.Join(words, " "); got != "GPU-00000000:removed:RMA 7 GPU-00000001:found: GPU-00000002:found:RMA 7" {
		t.Errorf("accepted, they are %s", got)
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=node.devices&limit=100", nil)
	last := rows.Items[len(rows.Items)-1]
	if !strings.Contains(string(last.After), `"removed"`) {
		last = rows.Items[0]
	}
	if last.Reason != "RMA 7" || !strings.Contains(string(last.Before), "missing") || !strings.Contains(string(last.After), "removed") || strings.HasPrefix(last.Actor, "node/") {
		t.Errorf("the audit log has %+v", rows.Items)
	}
	if s := servertest.Must[api.Status](t, b, http.MethodGet, "/status", nil); len(s.Devices) != 0 {
		t.Errorf("the status still says %+v", s.Devices)
	}
}
