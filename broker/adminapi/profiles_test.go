package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/hostler/hostler/broker/api"
	"github.com/hostler/hostler/broker/server/servertest"
)

// An answer has every knob, also a knob that is false, zero or unset; the description declares the
// same members as required.
func TestAnAnswerHasEveryKnobOfAProfile(t *testing.T) {
	const golden = "testdata/profile.golden"
	b := servertest.Start(t)
	servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", aSite)
	var members map[string]any
	if err := json.Unmarshal(b.Ask(t, b.Token, http.MethodGet, "/maas-sites/dc1/profiles/default", nil).Body, &members); err != nil {
		t.Fatal(err)
	}
	for _, varies := range []string{"id", "site_id", "created_at", "updated_at"} {
		delete(members, varies)
	}
	answer, err := json.MarshalIndent(members, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := describe(t, b, "/openapi.json")
	var required []string
	for _, name := range spec.Components.Schemas["SiteProfile"].(map[string]any)["required"].([]any) {
		required = append(required, name.(string))
	}
	slices.Sort(required)
	got := fmt.Sprintf("%s\nrequired: %q\n", answer, required)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the answer is\n%s", got)
	}
}
