package tasks

import (
	"testing"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/agent/host/hosttest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestATrustUpdateIsTakenOrItsRefusalIsTheTasks(t *testing.T) {
	h, _ := hosttest.Box(t)
	refusal := taskcatalog.Errorf("trust_key_unknown", "no")
	h.Trust = func(bundle string) (int64, bool, error) {
		if bundle != "good" {
			return 0, false, refusal
		}
		return 7, true, nil
	}
	for bundle, code := range map[string]taskcatalog.Code{"good": "", "bad": "trust_key_unknown", "": taskcatalog.CodeBadParams} {
		result, _, err := trustUpdate(t.Context(), &host.Run{Params: &taskcatalog.TrustUpdateParams{Bundle: bundle}, Host: h})
		if taskcatalog.CodeOf(err, "") != code {
			t.Errorf("%q: %v", bundle, err)
		}
		if err == nil && result.(*taskcatalog.TrustUpdateResult).Version != 7 {
			t.Errorf("%q: %+v", bundle, result)
		}
	}
}
