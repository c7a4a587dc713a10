package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

func begun[T any](t *testing.T, a servertest.Answer) (out T) {
	t.Helper()
	if a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	if err := json.Unmarshal(a.Body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// A client repeats a request after a lost answer, also towards a broker that was killed and
// restarted meanwhile.
func TestAStartThatIsAskedAgainUnderItsKeyIsTheSameRun(t *testing.T) {
	r := newRack(t, `{}`)
	start := api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: api.OnboardingMachine{Hostname: "c01", IPMIIP: "10.0.0.1"}}
	first := begun[api.Onboarding](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/onboardings", start))
	if again := begun[api.Onboarding](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/onboardings", start)); again.OnboardingID != first.OnboardingID {
		t.Errorf("asked again it is %s, and was %s", again.OnboardingID, first.OnboardingID)
	}
	r.boot()
	if again := begun[api.Onboarding](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/onboardings", start)); again.OnboardingID != first.OnboardingID {
		t.Errorf("after a restart it is %s, and was %s", again.OnboardingID, first.OnboardingID)
	}
	if list := servertest.Must[api.OnboardingList](t, r.Broker, http.MethodGet, "/onboardings", nil); len(list.Items) != 1 {
		t.Errorf("there are %d runs", len(list.Items))
	}

	op := r.NewToken(t, api.TokenCreate{Name: "op", Role: "operator"})
	other := start
	other.Hostname, other.IPMIIP = "c02", "10.0.0.2"
	batch := api.OnboardingBatch{SiteID: "dc1", SKUID: "h100.8gpu", Nodes: []api.OnboardingMachine{start.OnboardingMachine}}
	for what, row := range map[string]struct {
		key, token, path string
		body             any
		status           int
		code             string
	}{
		"another body":         {"k1", r.Token, "/onboardings", other, 422, "idempotency_conflict"},
		"another path":         {"k1", r.Token, "/onboardings/batch", batch, 422, "idempotency_conflict"},
		"another token":        {"k1", op, "/onboardings", start, 409, "onboarding_running"},
		"another key":          {"k2", r.Token, "/onboardings", start, 409, "onboarding_running"},
		"no key":               {"", r.Token, "/onboardings", start, 409, "onboarding_running"},
		"a key of a page":      {fmt.Sprintf("%0129d", 1), r.Token, "/onboardings", start, 422, "invalid_request"},
		"another, of k2 again": {"k2", r.Token, "/onboardings", start, 409, "onboarding_running"}, // a refused request leaves no key
	} {
		if a := r.AskOnce(t, row.key, row.token, http.MethodPost, row.path, row.body); a.Status != row.status || a.Code() != row.code {
			t.Errorf("%s: %d %s, want %d %s", what, a.Status, a.Body, row.status, row.code)
		}
	}
	if second := begun[api.Onboarding](t, r.AskOnce(t, "k2", r.Token, http.MethodPost, "/onboardings", other)); second.OnboardingID == first.OnboardingID {
		t.Error("a key of its own gave the first run")
	}
}

func TestABatchThatIsAskedAgainUnderItsKeyIsTheSame(t *testing.T) {
	r := newRack(t, `{}`)
	batch := api.OnboardingBatch{SiteID: "dc1", SKUID: "h100.8gpu", Nodes: []api.OnboardingMachine{{Hostname: "c01", IPMIIP: "10.0.0.1"}, {Hostname: "c02", IPMIIP: "10.0.0.2"}}}
	first := begun[api.OnboardingBatchStarted](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/onboardings/batch", batch))
	again := begun[api.OnboardingBatchStarted](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/onboardings/batch", batch))
	if again.BatchID != first.BatchID || len(again.Onboardings) != 2 {
		t.Errorf("asked again it is %+v, and was %+v", again, first)
	}
	adoption := api.AdoptionBatch{SiteID: "dc1", Machines: []api.AdoptedMachine{{SystemID: "abc123"}}}
	one := begun[api.OnboardingBatchStarted](t, r.AskOnce(t, "k2", r.Token, http.MethodPost, "/adoptions/batch", adoption))
	if two := begun[api.OnboardingBatchStarted](t, r.AskOnce(t, "k2", r.Token, http.MethodPost, "/adoptions/batch", adoption)); two.BatchID != one.BatchID || one.BatchID == first.BatchID {
		t.Errorf("adoptions: %+v, then %+v", one, two)
	}
}

func TestAKeyIsForgottenAfterADay(t *testing.T) {
	r := newRack(t, `{}`)
	start := api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: api.OnboardingMachine{Hostname: "c01", IPMIIP: "10.0.0.1"}}
	begun[api.Onboarding](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/onboardings", start))
	r.Advance(24*time.Hour + time.Second)
	start.Hostname, start.IPMIIP = "c02", "10.0.0.2"
	begun[api.Onboarding](t, r.AskOnce(t, "k1", r.Token, http.MethodPost, "/onboardings", start))
}

// Equal requests at the same moment begin one run, at whichever replica.
func TestRequestsUnderOneKeyAtOnceBeginOneRun(t *testing.T) {
	r := newRack(t, `{}`)
	start := api.OnboardingStart{SiteID: "dc1", SKUID: "h100.8gpu", OnboardingMachine: api.OnboardingMachine{Hostname: "c01", IPMIIP: "10.0.0.1"}}
	var all sync.WaitGroup
	ids := make([]string, 6)
	for i := range ids {
		all.Go(func() {
			a := r.AskOnce(t, "k1", r.Token, http.MethodPost, "/onboardings", start)
			var o api.Onboarding
			if err := json.Unmarshal(a.Body, &o); err != nil || a.Status != http.StatusOK {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			ids[i] = o.OnboardingID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("they are %v", ids)
		}
	}
}
