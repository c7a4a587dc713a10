package condition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler/hostler/broker"
)

func named(expression string) broker.OperationCondition {
	return broker.OperationCondition{Name: "rule", Expression: expression, Message: "no"}
}

// staging are the facts of an execution that the tests judge.
func staging() broker.OperationFacts {
	return broker.OperationFacts{
		Operation: "model.artifact.stage", Version: "v2", Backend: "node_agent", Trigger: "tenant_request", TargetKind: "allocation",
		NodeCount: 4, Site: "dc1", SKU: "h100", Labels: map[string]string{"tier": "gold"}, ArtifactSources: []string{"s3:models/a", "s3:models/b"},
	}.At(time.Date(2026, 3, 1, 23, 59, 0, 0, time.FixedZone("east", 3600)))
}

func TestAConditionIsTrueOrFalseOfTheFacts(t *testing.T) {
	for expression, want := range map[string]bool{
		`operation == "model.artifact.stage" && version == "v2" && backend == "node_agent"`: true,
		`trigger == "admin" || target_kind == "node"`:                                       false,
		`node_count <= 4 && site == "dc1" && sku == "h100"`:                                 true,
		`"tier" in labels && labels.tier == "gold"`:                                         true,
		`has(labels.rack) && labels.rack == "b12"`:                                          false,
		`artifact_sources.all(s, s.startsWith("s3:models/"))`:                               true,
		`artifact_sources.exists(s, s.matches("^s3:other"))`:                                false,
		`site.matches("^dc[0-9]{1,3}$") && matches(sku, "h[0-9]+")`:                         true,
		`hour == 22 && minute == 59`:                                                        true,
		"hour >= 8 &&\n\thour < 18":                                                         false,
		`size(labels["tier"]) == 4`:                                                         true,
	} {
		c := named(expression)
		if err := Check([]broker.OperationCondition{c}); err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		var j Judge
		for range 2 { // read, and kept ready
			if got, err := j.Holds(t.Context(), c, staging()); err != nil || got != want {
				t.Errorf("%s: %v %v, want %v", expression, got, err, want)
			}
		}
	}
}

func TestAConditionThatCannotBeReadIsRefusedWithItsPlace(t *testing.T) {
	deep := strings.Repeat("!(", 60) + "true" + strings.Repeat(")", 60)
	for _, row := range []struct{ expression, code, says string }{
		{`sku == "h100" &&`, CodeSyntax, "condition rule, line 1, column 17: "},
		{"true &&\n  colour == \"red\"", CodeUnknownName, "condition rule, line 2, column 3: there is nothing with the name 'colour' (the variables are operation, version, "},
		{`project == "lab"`, CodeUnknownName, "column 1: there is nothing with the name 'project'"},
		{`env("HOME") == ""`, CodeUnknownName, "the name 'env'"},
		{`now() > 1`, CodeUnknownName, "the name 'now'"},
		{`hour == "8"`, CodeType, "line 1, column 6: found no matching overload"},
		{`labels.tier > 4`, CodeType, "line 1, column 13: "},
		{`node_count`, CodeType, "condition rule has the result int, and a condition must be true or false"},
		{`dyn(true)`, CodeType, "has the result dyn"},
		{`labels`, CodeType, "has the result map(string, string)"},
		{`site.matches("(")`, CodeType, "line 1, column 14: "},
		{`site.matches("(a{100}){9}")`, CodeType, "line 1, column 14: the regular expression is too large (920 instructions, at most 500)"},
		{`site.matches(labels.tier)`, CodeType, "column 20: a regular expression must be a literal text"},
		{`matches("dc1", "^" + site)`, CodeType, "must be a literal text"},
		{deep, CodeSyntax, "recursion"},
		{`[1,2].all(a, [1,2].all(b, [1,2].all(c, a + b > c)))`, CodeType, "nest"},
		{"[" + strings.Repeat("1,", 500) + "1].size() > 1", CodeSyntax, "condition rule: expression node count exceeds limit"},
		{"\x00", CodeSyntax, ""},
	} {
		err := Check([]broker.OperationCondition{named("true"), named(row.expression)})
		if err == nil || broker.AsError(err).Code != row.code || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%.60s: %v, want %s %s", row.expression, err, row.code, row.says)
		}
		if yes, err := new(Judge).Holds(t.Context(), named(row.expression), staging()); yes || err == nil {
			t.Errorf("%.60s: it is judged, %v %v", row.expression, yes, err)
		}
	}
}

// What fails, or costs too much, is an error that says nothing of the facts.
func TestAConditionThatFailsIsNotTrue(t *testing.T) {
	list := "[" + strings.Repeat("1,", 200) + "1]"
	for expression, says := range map[string]string{
		`labels.rack != "b12"`:                                        "it fails, such as for a label that is missing",
		`10 / (node_count - 4) > 1`:                                   "it fails",
		`artifact_sources[7] != ""`:                                   "it fails",
		list + `.all(a, ` + list + `.all(b, a + b > 0 && a * b > 0))`: "it costs too much",
	} {
		c := named(expression)
		if err := Check([]broker.OperationCondition{c}); err != nil {
			t.Errorf("%.60s: %v", expression, err)
		}
		yes, err := new(Judge).Holds(t.Context(), c, staging())
		if yes || err == nil || !strings.HasPrefix(err.Error(), says) || strings.Contains(err.Error(), "gold") || strings.Contains(err.Error(), "rack") {
			t.Errorf("%.60s: %v %v, want %s", expression, yes, err, says)
		}
	}
}

func TestACancelledJudgementIsNoVerdict(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if yes, err := new(Judge).Holds(ctx, named("true"), staging()); yes || !errors.Is(err, context.Canceled) {
		t.Errorf("%v %v", yes, err)
	}
}

func TestAJudgeKeepsABoundedNumberOfExpressions(t *testing.T) {
	var j Judge
	for i := range maxCache + 3 {
		if yes, err := j.Holds(t.Context(), named(fmt.Sprintf("node_count != %d", i+10)), staging()); !yes || err != nil {
			t.Fatal(yes, err)
		}
	}
	if len(j.programs) != 3 {
		t.Errorf("it keeps %d", len(j.programs))
	}
}

// Whatever the levels say, an execution is permitted exactly if the conditions of each level are true of it.
func TestConditionsOnlyNarrow(t *testing.T) {
	yes := map[string]bool{`hour < 24`: true, `sku == "h100"`: true, `node_count > 4`: false, `labels.rack == "b12"`: false, `site == "dc1"`: true}
	var expressions []string
	for e := range yes {
		expressions = append(expressions, e)
	}
	slices.Sort(expressions)
	var j Judge
	org := broker.Place{OrganisationID: "o"}
	project := broker.Place{OrganisationID: "o", ProjectID: "p"}
	rapid.Check(t, func(r *rapid.T) {
		var all []broker.OperationPolicy
		want := true
		for _, at := range []broker.Place{{}, org, project} {
			p := broker.OperationPolicy{Place: at, Operation: broker.AllOperations}
			for i, e := range rapid.SliceOfN(rapid.SampledFrom(expressions), 0, 3).Draw(r, "expressions") {
				p.Overlay.Conditions = append(p.Overlay.Conditions, broker.OperationCondition{Name: fmt.Sprintf("c%d", i), Expression: e, Message: "no"})
				want = want && yes[e]
			}
			all = append(all, p)
		}
		ask := broker.OperationAsk{Holds: func(c broker.OperationCondition) (bool, error) { return j.Holds(t.Context(), c, staging()) }}
		err := broker.MergeOperationPolicies(project, "a.b", rapid.Permutation(all).Draw(r, "order")).Permit(ask)
		if (err == nil) != want || err != nil && broker.AsError(err).Code != "operation_condition_denied" {
			r.Fatalf("%v, want permitted: %v", err, want)
		}
	})
}

// No text makes the reader or the judge of conditions panic.
func FuzzACondition(f *testing.F) {
	for _, e := range []string{`hour < 8`, `labels.tier.matches("a{3}")`, `artifact_sources.map(s, s + s).exists(s, has(labels.x))`, `{"a": [1, 2.5]}["a"][0] == 1`, "\x00"} {
		f.Add(e)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		if len(expression) > 1024 {
			return
		}
		if yes, err := new(Judge).Holds(t.Context(), named(expression), staging()); yes && (err != nil || Check([]broker.OperationCondition{named(expression)}) != nil) {
			t.Errorf("%q is true, and cannot be judged: %v", expression, err)
		}
	})
}
