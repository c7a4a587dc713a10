package adminapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestFiguresAreOfWhatIsOnRecord(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1", Site: "dc1"}).Settle(t)
	figures := func() api.TurnoverFigures {
		t.Helper()
		return servertest.Must[api.TurnoverFigures](t, b, http.MethodGet, "/decommissions/figures", nil)
	}
	if f := figures(); len(f.Sites) != 0 || len(f.Slowest) != 0 || f.To.Sub(f.From) != 7*24*time.Hour {
		t.Errorf("before any turnover: %+v", f)
	}
	servertest.Must[api.Decommission](t, b, http.MethodPost, "/nodes/h1/decommission", api.DecommissionStart{Mode: "soft_reset", Reason: "the tenant left"})
	servertest.Eventually(t, "the node is out, and disable_node has ended", func() bool {
		f := figures()
		return show(t, b, "h1").TurnoverOwed && len(f.Stages) > 0
	})
	f := figures()
	if len(f.Sites) != 1 || f.Sites[0].Site != "dc1" || f.Sites[0].Turnovers != 1 || f.Sites[0].Open != 1 || f.Sites[0].NodeHoursLost <= 0 || f.Slow != 1 || len(f.Slowest) != 1 {
		t.Errorf("%+v", f)
	}
	if s := f.Stages[0]; s.Mode != "soft_reset" || s.Stage != "disable_node" || s.Turnovers != 1 {
		t.Errorf("%+v", s)
	}
	metrics := string(b.Ask(t, "", http.MethodGet, b.OperatorURL()+"/metrics", nil).Body)
	for _, line := range []string{"hostler_turnover_open 1", "hostler_turnover_lost_gpu_hours 0", `hostler_turnover_stage_seconds{mode="soft_reset",stage="disable_node"}`, `hostler_turnover_slowest_seconds{class="",stage="`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	for _, since := range []time.Time{b.Now().Add(time.Hour), b.Now().AddDate(-1, 0, 0)} {
		if a := b.Ask(t, b.Token, http.MethodGet, "/decommissions/figures?since="+url.QueryEscape(since.UTC().Format(time.RFC3339)), nil); a.Code() != "since_invalid" {
			t.Errorf("since %v: %d %s", since, a.Status, a.Body)
		}
	}
	bound := servertest.Must[api.TokenCreated](t, b, http.MethodPost, "/tokens", api.TokenCreate{Name: "elsewhere", Role: "viewer", Sites: []string{"dc2"}})
	if a := b.Ask(t, bound.Secret, http.MethodGet, "/decommissions/figures?site=dc1", nil); a.Code() != "site_forbidden" {
		t.Errorf("another site's: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, bound.Secret, http.MethodGet, "/decommissions/figures", nil); a.Status != http.StatusOK || strings.Contains(string(a.Body), "dc1") || strings.Contains(string(a.Body), "disable_node") {
		t.Errorf("all that they may see: %d %s", a.Status, a.Body)
	}
}
