package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/hostler/hostler/broker"
)

// A log goes on after its last row when the connection broke, and ends with its operation.
func TestAFollowedLogGoesOnAfterItsLastRow(t *testing.T) {
	row := func(id string) string { return fmt.Sprintf("id: %s\ndata: {\"line\":{\"id\":%q}}\n\n", id, id) }
	answers := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, row("1.0.0")+"data: {\"progress\":{\"place\":2}}\n\nid: 1.0.1\nda")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(w http.ResponseWriter) { _, _ = io.WriteString(w, row("1.0.1")+": still here\n\n") },
		func(w http.ResponseWriter) { _, _ = io.WriteString(w, "data: {\"end\":{\"status\":\"failed\"}}\n\n") },
	}
	var asked, got, told []string
	remote, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := len(asked)
		asked = append(asked, r.URL.Query().Get("cursor"))
		answers[n](w)
	})
	err := remote.FollowOperationLog(context.Background(), OperationLogFilter{Operation: "op-1"}, func(e OperationLogEvent) error {
		switch {
		case e.Line != nil:
			got = append(got, e.Line.ID)
		case e.Progress != nil:
			got = append(got, fmt.Sprint("node ", e.Progress.Place))
		case e.End != nil:
			got = append(got, e.End.Status)
		}
		return nil
	}, func(err error) { told = append(told, broker.AsError(err).Code) })
	if err != nil || fmt.Sprintf("%q", asked) != `["" "1.0.0" "1.0.0" "1.0.1"]` || fmt.Sprint(got) != "[1.0.0 node 2 1.0.1 failed]" ||
		fmt.Sprint(told) != "[log_interrupted unexpected_answer]" {
		t.Errorf("%v: it asked after %q, got %q, told %q", err, asked, got, told)
	}
}
