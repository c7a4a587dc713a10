package adminapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
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

// The description of a profile says what the declarations of the knobs say.
func TestTheDescriptionOfAProfileIsThatOfItsKnobs(t *testing.T) {
	b := servertest.Start(t)
	spec, raw := describe(t, b, "/openapi.json")
	var bodies struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct {
					Schema struct{ Properties map[string]any }
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &bodies); err != nil {
		t.Fatal(err)
	}
	change := bodies.Paths[api.Prefix+"/maas-sites/{site}/profiles/{profile}"]["patch"].RequestBody.Content["application/json"]
	changes := change.Schema.Properties
	properties := spec.Components.Schemas["SiteProfile"].(map[string]any)["properties"].(map[string]any)
	for _, k := range broker.Knobs() {
		p, _ := properties[k.Name].(map[string]any)
		if p["description"] != k.Help {
			t.Errorf("%s is described as %v", k.Name, p["description"])
		}
		if p["minimum"] != nil && fmt.Sprintf("%.0f to %.0f", p["minimum"], p["maximum"]) != k.Bounds {
			t.Errorf("%s is from %v to %v, want %s", k.Name, p["minimum"], p["maximum"], k.Bounds)
		}
		if enum, _ := p["enum"].([]any); enum != nil && strings.Trim(fmt.Sprint(enum), "[]") != strings.ReplaceAll(k.Bounds, ",", "") {
			t.Errorf("%s is one of %v, want %s", k.Name, enum, k.Bounds)
		}
		if k.Default != "" && k.Name != "stage_retries" && fmt.Sprint(number(p["default"])) != k.Default {
			t.Errorf("%s has the default %v, want %s", k.Name, p["default"], k.Default)
		}
		if c, _ := changes[k.Name].(map[string]any); c["description"] != k.Help || c["default"] != nil {
			t.Errorf("%s in a change is %v: what a change leaves out keeps its value", k.Name, c)
		}
	}
}

// number is a JSON number as a whole one.
func number(v any) any {
	if f, is := v.(float64); is {
		return int(f)
	}
	return v
}

// A knob outside its bounds is refused with its value, its bounds and its unit.
func TestAKnobOutsideItsBoundsIsExplained(t *testing.T) {
	b := servertest.Start(t)
	servertest.Must[api.Site](t, b, http.MethodPost, "/maas-sites", aSite)
	for body, want := range map[string]string{
		`{"deploy_timeout_seconds":7}`:        "deploy_timeout_seconds is 7 seconds (allowed: 60 to 86400 seconds)",
		`{"deploy_timeout_seconds":99999}`:    "deploy_timeout_seconds is 99999 seconds (allowed: 60 to 86400 seconds)",
		`{"batch_max_parallel":0}`:            "batch_max_parallel is 0 runs (allowed: 1 to 500 runs)",
		`{"turnover_environment":null}`:       "turnover_environment is null",
		`{"batch_stop_after_failures": null}`: "batch_stop_after_failures is null",
		`{"stage_retries":null}`:              "stage_retries is null",
		`{"disk_grade":"shiny"}`:              `disk_grade is the grade \"shiny\" (allowed: none, clear, purge)`,
	} {
		a := b.Ask(t, b.Token, http.MethodPatch, "/maas-sites/dc1/profiles/default", body)
		if a.Code() != "invalid_request" || !strings.Contains(string(a.Body), want) {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
}
