package adminapi_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

// A running turnover's cost is already on the node's timeline.
func TestATimelineSaysWhatATurnoverCosts(t *testing.T) {
	b := servertest.Start(t)
	boot := servertest.Must[api.NodeBootstrap](t, b, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	b.EnrollMachine(t, boot.Token, "h1", "", servertest.H100s(8)).Settle(t)
	servertest.Must[api.Decommission](t, b, http.MethodPost, "/nodes/h1/decommission", api.DecommissionStart{Mode: "soft_reset", Reason: "r"})
	servertest.Eventually(t, "the node to be out of use", func() bool { return show(t, b, "h1").TurnoverOwed })
	b.Advance(15 * time.Minute)
	var lost []api.TimelineEvent
	for _, e := range servertest.Must[api.Timeline](t, b, http.MethodGet, "/nodes/h1/timeline", nil).Items {
		if e.Kind == "outage" {
			lost = append(lost, e)
		}
	}
	if len(lost) != 1 || lost[0].Status != "open" || lost[0].GPUHoursLost == nil || *lost[0].GPUHoursLost < 2 || *lost[0].GPUHoursLost > 2.5 || *lost[0].NodeHoursLost < 0.25 || !strings.Contains(lost[0].Detail, "GPU-hours lost (GPUs: 8)") {
		t.Errorf("%+v", lost)
	}
}

func TestATimelineSaysWhatHappenedWhoDidItAndHowLongItTook(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h2"})
	act(t, b, "h1", "drain", api.NodeAction{Reason: "service"})
	d, task := n.Next(t)
	n.Finish(t, d, task, taskcatalog.OutcomeSucceeded, taskcatalog.DrainResult{Drained: true}, taskcatalog.Report{})

	ask := func(query string) api.Timeline {
		t.Helper()
		return servertest.Must[api.Timeline](t, b, http.MethodGet, "/nodes/h1/timeline?"+query, nil)
	}
	line := func(all api.Timeline) (out []string) {
		for _, e := range all.Items {
			out = append(out, fmt.Sprint(e.At, e.Kind, e.What, e.TaskID))
		}
		return out
	}
	whole := ask("limit=1000")
	if whole.Earlier || whole.Next != "" {
		t.Errorf("it is whole: %v, %q", whole.Earlier, whole.Next)
	}
	var states []string
	for _, e := range whole.Items {
		switch e.Kind {
		case "state":
			states = append(states, e.Detail)
			if e.Actor == "" {
				t.Errorf("nobody did %+v", e)
			}
		case "task":
			if e.Status == "succeeded" && (e.EndedAt.IsZero() || e.TookSeconds != e.EndedAt.Sub(e.At).Seconds() || e.TaskID == "") {
				t.Errorf("%+v", e)
			}
		}
	}
	if got := strings.Join(states, "; "); !strings.Contains(got, "active → draining: service; draining → retired") {
		t.Errorf("states: %s", got)
	}

	newest := ask("limit=2")
	if got, all := line(newest), line(whole); len(got) != 2 || !newest.Earlier || got[0] != all[len(all)-2] || got[1] != all[len(all)-1] {
		t.Errorf("the newest two are %v of %v", got, all)
	}
	since := url.QueryEscape(whole.Items[0].At.Format(time.RFC3339Nano))
	var paged []string
	for page := ask("limit=3&since=" + since); ; page = ask("limit=3&cursor=" + page.Next) {
		paged = append(paged, line(page)...)
		if page.Next == "" {
			break
		}
	}
	if strings.Join(paged, "\n") != strings.Join(line(whole), "\n") {
		t.Errorf("in pages: %v, whole: %v", paged, line(whole))
	}

	for _, query := range []string{"cursor=1.x", "cursor=-1.0", "cursor=1.0&since=" + since} {
		if a := b.Ask(t, b.Token, http.MethodGet, "/nodes/h1/timeline?"+query, nil); a.Code() != "cursor_invalid" {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/nodes/h1/timeline?limit=1001", nil); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("a page of any size: %d", a.Status)
	}
}
