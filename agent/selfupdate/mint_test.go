package selfupdate

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
)

// asks mints a credential for a private registry, with the given answers in turn; the last repeats.
// It returns the times of the requests.
func asks(t *testing.T, ctx context.Context, answers ...error) (asked []time.Duration, got *taskcatalog.OCIPullCredential, err error) {
	t.Helper()
	w := newWorld(t)
	w.store.now = time.Now
	u := &Updater{Stager: *w.stager()}
	began := time.Now()
	got, _, err = u.mint(ctx, Task{
		Params: &taskcatalog.SelfUpdateParams{Source: &taskcatalog.ReleaseSource{Credential: taskcatalog.CredentialOCIPull}},
		Mint: func(_ context.Context, credentialType string) ([]byte, error) {
			if credentialType != taskcatalog.CredentialOCIPull {
				t.Errorf("asked for %s", credentialType)
			}
			answer := answers[min(len(asked), len(answers)-1)]
			asked = append(asked, time.Since(began))
			return []byte(`{"token":"t"}`), answer
		},
	})
	return asked, got, err
}

func refusal(status int, code taskcatalog.Code, after time.Duration) error {
	r := &uplink.Refusal{Status: status, Code: code, Detail: "no: " + string(code), RetryAfter: after}
	return errors.Join(&taskcatalog.Error{Code: code, Message: r.Error()}, r)
}

// A restarting broker, or an overloaded registry, is retried like a registry that parts are fetched
// from.
func TestACredentialIsAskedForWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, got, err := asks(t, t.Context(),
			taskcatalog.Errorf(uplink.CodeUnreachable, "connection refused"),
			refusal(http.StatusServiceUnavailable, "registry_unreachable", 0),
			refusal(http.StatusTooManyRequests, "mint_too_soon", 47*time.Second),
			refusal(http.StatusInternalServerError, "internal", 0),
			nil)
		if err != nil || got.Token != "t" || len(asked) != 5 {
			t.Fatalf("asked at %v: %v", asked, err)
		}
		if pause := asked[3] - asked[2]; pause < 47*time.Second {
			t.Errorf("asked again %v after it was told to wait for 47 s", pause)
		}
		if asked[2] > 10*time.Second {
			t.Errorf("where nobody says how long, it waits: %v", asked)
		}
	})
}

func TestTheBrokersRefusalOfACredentialIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, no := range []error{
			refusal(http.StatusConflict, "registry_pull_refused", 0), refusal(http.StatusForbidden, "credential_refused", time.Minute),
			refusal(http.StatusNotFound, "registry_credential_not_found", 0),
		} {
			asked, _, err := asks(t, t.Context(), no, nil)
			if len(asked) != 1 || taskcatalog.CodeOf(err, "") != taskcatalog.CodeOf(no, "") {
				t.Errorf("%v: asked at %v: %v", no, asked, err)
			}
		}
	})
}

func TestThePatienceForACredentialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, _, err := asks(t, t.Context(), refusal(http.StatusServiceUnavailable, "registry_unreachable", 0))
		last := asked[len(asked)-1]
		if taskcatalog.CodeOf(err, "") != CodeSource || !strings.Contains(err.Error(), "registry_unreachable") || last < patience || last > patience+2*maxRetryPause {
			t.Errorf("asked at %v: %v", asked, err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the task's time is over"))
		defer cancel()
		if asked, _, err := asks(t, ctx, refusal(http.StatusServiceUnavailable, "registry_unreachable", 0)); err == nil || err.Error() != "the task's time is over" || asked[len(asked)-1] > time.Minute {
			t.Errorf("asked at %v: %v", asked, err)
		}
	})
}
