package adminapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestABaselineIsRetakenLookedAtAndAccepted(t *testing.T) {
	b := servertest.Start(t)
	n := b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	first := servertest.Must[api.Baseline](t, b, http.MethodGet, "/nodes/h1/baseline", nil)
	if diff := servertest.Must[api.BaselineDiff](t, b, http.MethodGet, "/nodes/h1/baseline/diff", nil); len(diff.Lines) != 0 || diff.Candidate != "" {
		t.Fatalf("before a retake there is a difference: %+v", diff)
	}

	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/baseline/retake", api.ReasonBody{Reason: "new disk"})
	d, signed := n.Next(t)
	if signed.TaskID != task.ID {
		t.Fatalf("the node got %s, not %s", signed.TaskID, task.ID)
	}
	next := first.Baseline
	next.Processes = append([]string{"/usr/bin/new"}, next.Processes...)
	digest, err := next.Digest()
	if err != nil {
		t.Fatal(err)
	}
	n.Finish(t, d, signed, taskcatalog.OutcomeSucceeded, taskcatalog.ValidateCleanResult{BaselineDigest: digest, Baseline: &next}, taskcatalog.Report{})

	// A later baseline of the node needs a person's review first.
	if got := servertest.Must[api.Baseline](t, b, http.MethodGet, "/nodes/h1/baseline", nil); got.Digest != first.Digest || got.AcceptedBy != "" {
		t.Fatalf("the retake is in force unseen: %s", got.Digest)
	}
	diff := servertest.Must[api.BaselineDiff](t, b, http.MethodGet, "/nodes/h1/baseline/diff", nil)
	if diff.Candidate != digest || len(diff.Lines) != 1 || diff.Lines[0].Op != "added" || diff.Lines[0].What != "/usr/bin/new" {
		t.Fatalf("the difference is %+v", diff)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/nodes/h1/baseline/accept", api.BaselineAccept{Digest: "sha256:" + strings.Repeat("0", 64), Reason: "r"}); a.Code() != "baseline_not_candidate" {
		t.Errorf("another one was accepted: %d %s", a.Status, a.Body)
	}
	for range 2 {
		got := servertest.Must[api.Baseline](t, b, http.MethodPost, "/nodes/h1/baseline/accept", api.BaselineAccept{Digest: digest, Reason: "new disk"})
		if got.Digest != digest || len(got.Baseline.Processes) != 2 {
			t.Errorf("accepted, it is %+v", got)
		}
		if got.AcceptedBy == "" || got.Reason != "new disk" || got.AcceptedAt.IsZero() {
			t.Errorf("it is the word of %q at %v because %q", got.AcceptedBy, got.AcceptedAt, got.Reason)
		}
	}
}
