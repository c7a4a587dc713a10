package condition

import (
	"testing"

	"github.com/hostler/hostler/broker"
)

// What the open facts cannot change is known before they are.
func TestAConditionIsForeseenAsFarAsItsFactsAreKnown(t *testing.T) {
	open := []string{"node_count", "site", "labels", "hour", "minute"}
	for expression, want := range map[string]string{
		`sku == "h100"`:                                "true",
		`trigger != "tenant_request"`:                  "false",
		`node_count <= 8`:                              "open",
		`sku == "h100" && node_count <= 8`:             "open",
		`sku == "a100" && node_count <= 8`:             "false",
		`sku == "h100" || labels.tier == "gold"`:       "true",
		`hour < 8 || hour >= 20`:                       "open",
		`"tier" in labels`:                             "open",
		`artifact_sources[7] == "s3:models/a"`:         "fails",
		`labels.tier == "gold" ? sku == "x" : false`:   "open",
		`[site].exists(s, s == "dc1") && sku == "h99"`: "false",
		`sku ==`: "fails",
	} {
		yes, known, err := Foresee(named(expression), staging(), open)
		got := map[bool]string{true: "true", false: "false"}[yes]
		if err != nil {
			got = "fails"
		} else if !known {
			got = "open"
		}
		if got != want {
			t.Errorf("%s: %s, want %s (%v)", expression, got, want, err)
		}
	}
	// What Foresee knows is what Holds says, whatever the open facts are.
	var j Judge
	for _, expression := range []string{`sku == "h100"`, `sku == "a100" && node_count <= 8`, `sku == "h100" || labels.tier == "gold"`} {
		yes, _, _ := Foresee(named(expression), staging(), open)
		for _, labels := range []map[string]string{nil, {"tier": "gold"}} {
			facts := staging()
			facts.Labels, facts.NodeCount = labels, 99
			if got, err := j.Holds(t.Context(), named(expression), facts); err != nil || got != yes {
				t.Errorf("%s: foreseen %v, and it is %v %v", expression, yes, got, err)
			}
		}
	}
	if _, known, err := Foresee(broker.OperationCondition{Name: "rule", Expression: "size(artifact_sources) == hour"}, staging(), open); known || err != nil {
		t.Error(known, err)
	}
}
