package adminapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/server/servertest"
	"github.com/hostler/hostler/broker/store"
)

// correlated checks that the audit rows about an operation, its runs and its tasks have one correlation id.
func correlated(t *testing.T, b *servertest.Broker, operation string) {
	t.Helper()
	rows, err := openStore(t, b).ListAudit(t.Context(), store.AuditFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var actions []string
	for _, r := range rows {
		switch {
		case r.CorrelationID == operation:
			actions = append(actions, r.Action)
		case strings.HasPrefix(r.CorrelationID, operation):
			t.Errorf("%s of %s has the correlation id %s", r.Action, r.Subject, r.CorrelationID)
		}
	}
	for _, want := range []string{"operation.request", "operation.transition", "operation.retry", "task.enqueue", "task.end"} {
		if !slices.Contains(actions, want) {
			t.Errorf("no row %s of operation %s: %q", want, operation, actions)
		}
	}
}
