package adminapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func TestARevokedTokenEndsTheRequestThatWaits(t *testing.T) {
	b := servertest.Start(t)
	b.NewNode(t, api.NodeCreate{Hostname: "h1"}).Settle(t)
	task := servertest.Must[api.Task](t, b, http.MethodPost, "/nodes/h1/tasks", api.TaskCreate{Type: "node.heartbeat_check"})
	secret := b.NewToken(t, api.TokenCreate{Name: "eve", Role: "viewer"})

	answer := make(chan servertest.Answer, 1)
	go func() { answer <- b.Ask(t, secret, http.MethodGet, "/tasks/"+task.ID+"?wait=50", nil) }()
	// The first request must be waiting: a successful second request shows that the first has
	// arrived.
	servertest.Eventually(t, "the token is in use", func() bool {
		return b.Ask(t, secret, http.MethodGet, "/whoami", nil).Status == http.StatusOK
	})
	servertest.Must[api.Token](t, b, http.MethodPost, "/tokens/eve/revoke", api.ReasonBody{Reason: "left"})
	select {
	case a := <-answer:
		if a.Status != http.StatusUnauthorized || a.Code() != "token_revoked" {
			t.Errorf("it was answered %d %s", a.Status, a.Body)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the request still waits")
	}
}

func TestATokenIsShownOnceAndKeptAsAHash(t *testing.T) {
	b := servertest.Start(t)
	made := servertest.Must[api.TokenCreated](t, b, http.MethodPost, "/tokens", api.TokenCreate{Name: "ann", Role: "operator", Sites: []string{"dc1"}, Reason: "new"})
	if !strings.HasPrefix(made.Secret, "hso_") || made.Token.Name != "ann" || made.Token.ExpiresAt.IsZero() {
		t.Fatalf("made %+v", made.Token)
	}
	for _, path := range []string{"/tokens", "/audit?limit=1000", "/audit/export"} {
		if a := b.Ask(t, b.Token, http.MethodGet, path, nil); strings.Contains(string(a.Body), made.Secret) || !strings.Contains(string(a.Body), "ann") {
			t.Errorf("GET %s: %s", path, a.Body)
		}
	}
	var after struct {
		ExpiresAt time.Time `json:"expires_at"` // RFC 3339, as every time of the API
	}
	rows := servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?action=token.create&limit=1", nil)
	if err := json.Unmarshal(rows.Items[0].After, &after); err != nil || !after.ExpiresAt.Equal(made.Token.ExpiresAt.Truncate(time.Second)) {
		t.Errorf("the audit log has %s, %v; want %s", rows.Items[0].After, err, made.Token.ExpiresAt)
	}
	for name, row := range map[string]struct {
		token api.TokenCreate
		code  string
	}{
		"the same name":          {api.TokenCreate{Name: "ann", Role: "viewer"}, "token_name_taken"},
		"the broker's own":       {api.TokenCreate{Name: "system", Role: "viewer"}, "token_invalid"},
		"an admin of some sites": {api.TokenCreate{Name: "bob", Role: "platform_admin", Sites: []string{"dc1"}}, "token_invalid"},
		"a bad site":             {api.TokenCreate{Name: "bob", Role: "viewer", Sites: []string{"DC 1"}}, "token_invalid"},
		"no such role":           {api.TokenCreate{Name: "bob", Role: "root"}, "invalid_request"},
	} {
		if a := b.Ask(t, b.Token, http.MethodPost, "/tokens", row.token); a.Code() != row.code {
			t.Errorf("%s: %d %s, want %s", name, a.Status, a.Body, row.code)
		}
	}
	// A name stays taken after its token ends, because it names rows of the audit log.
	servertest.Must[api.Token](t, b, http.MethodPost, "/tokens/ann/revoke", api.ReasonBody{})
	if a := b.Ask(t, b.Token, http.MethodPost, "/tokens", api.TokenCreate{Name: "ann", Role: "viewer"}); a.Code() != "token_name_taken" {
		t.Errorf("the name was given again: %d %s", a.Status, a.Body)
	}
	if a := b.Ask(t, b.Token, http.MethodPost, "/tokens/nobody/revoke", api.ReasonBody{}); a.Code() != "token_not_found" {
		t.Errorf("revoking none: %d %s", a.Status, a.Body)
	}
}

func TestATokenThatAsksTooOftenIsSlowedDownAlone(t *testing.T) {
	b := servertest.Start(t)
	busy := b.NewToken(t, api.TokenCreate{Name: "busy", Role: "viewer"})
	limited := false
	for range 2000 {
		if a := b.Ask(t, busy, http.MethodGet, "/whoami", nil); a.Status == http.StatusTooManyRequests {
			limited = a.Code() == "rate_limited" && a.Header.Get("Retry-After") != ""
			break
		}
	}
	if !limited {
		t.Error("2000 requests in a row were let through")
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/whoami", nil); a.Status != http.StatusOK {
		t.Errorf("another token pays for it: %d", a.Status)
	}
	for range 30 {
		b.Ask(t, "hso_"+strings.Repeat("B", 43), http.MethodGet, "/whoami", nil)
	}
	if a := b.Ask(t, "hso_"+strings.Repeat("B", 43), http.MethodGet, "/whoami", nil); a.Code() != "rate_limited" {
		t.Errorf("a guesser is answered %d %s", a.Status, a.Code())
	}
	if a := b.Ask(t, b.Token, http.MethodGet, "/whoami", nil); a.Status != http.StatusOK {
		t.Errorf("who shares the guesser's address pays for it: %d", a.Status)
	}
}

// A holder of a revoked or weak token must not be able to fill the audit log.
func TestEqualRefusalsOfATokenAreOneRowAMinute(t *testing.T) {
	b := servertest.Start(t)
	eve := b.NewToken(t, api.TokenCreate{Name: "eve", Role: "viewer"})
	rows := func(code string) (reasons []string) {
		for _, e := range servertest.Must[api.AuditList](t, b, http.MethodGet, "/audit?actor=eve&action=request.refused&limit=1000", nil).Items {
			if e.Code == code {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons
	}
	for range 5 {
		b.Ask(t, eve, http.MethodGet, "/tokens", nil)
		b.Ask(t, eve, http.MethodPost, "/nodes", api.NodeCreate{Hostname: "h1"})
	}
	if got := rows("role_insufficient"); len(got) != 2 {
		t.Errorf("two kinds of refusals, five times each, are the rows %q", got)
	}
	servertest.Must[api.Token](t, b, http.MethodPost, "/tokens/eve/revoke", api.ReasonBody{})
	for _, path := range []string{"/nodes", "/tasks", "/nodes/a", "/nodes/b"} {
		b.Ask(t, eve, http.MethodGet, path, nil)
	}
	if got := rows("token_revoked"); len(got) != 1 {
		t.Errorf("four requests with a revoked token are the rows %q", got)
	}
	b.Advance(time.Minute)
	b.Ask(t, eve, http.MethodGet, "/nodes", nil)
	if got := rows("token_revoked"); len(got) != 2 || !strings.HasSuffix(got[0], "(and 3 similar refusals since the last entry)") {
		t.Errorf("a minute later the rows are %q", got)
	}
}
