package broker

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hostler/hostler/taskcatalog"
)

var (
	tenantPlace  = Place{OrganisationID: "org-1"}
	projectPlace = Place{OrganisationID: "org-1", ProjectID: "prj-1"}
)

const stage = "model.artifact.stage"

func global(o OperationOverlay) OperationPolicy {
	return OperationPolicy{Operation: stage, Overlay: o}
}

func at(p Place, operation string, o OperationOverlay) OperationPolicy {
	return OperationPolicy{Place: p, Operation: operation, Overlay: o}
}

// stageAsk is an execution that no policy of these tests denies, unless it narrows to less.
func stageAsk() OperationAsk {
	return OperationAsk{TargetKind: "node", Sources: []string{"s3:models/public/llama"}, MaxArtifactBytes: 1 << 30, Timeout: time.Hour, Holds: judged}
}

// Each denial has its code, and its text names level and key.
func TestADenialNamesLevelAndKey(t *testing.T) {
	for _, c := range []struct {
		name   string
		rows   []OperationPolicy
		change func(*OperationAsk)
		code   string
		says   string
	}{
		{"no policy", nil, nil, "", ""},
		{
			"off for all",
			[]OperationPolicy{at(Place{}, AllOperations, OperationOverlay{Enabled: new(false)})},
			nil,
			"operation_denied", "cannot run model.artifact.stage: denied by the global policy for all operations: enabled is false " +
				"(see hostler operation policy explain model.artifact.stage)",
		},
		{
			"on again below", []OperationPolicy{
				at(projectPlace, stage, OperationOverlay{Enabled: new(true)}), at(tenantPlace, stage, OperationOverlay{Enabled: new(false)}),
			}, nil, "operation_denied", "denied by the tenant's policy for model.artifact.stage: enabled is false",
		},
		{
			"a source",
			[]OperationPolicy{
				global(OperationOverlay{AllowedArtifactSources: []string{"s3:models", "s3:other"}}),
				at(tenantPlace, stage, OperationOverlay{AllowedArtifactSources: []string{"s3:models"}}),
			},
			func(a *OperationAsk) { a.Sources = append(a.Sources, "s3:other/x") },
			"artifact_source_denied", "cannot run model.artifact.stage from s3:other/x: denied by the tenant's policy for model.artifact.stage: " +
				"allowed_artifact_sources has only s3:models (",
		},
		{
			"a source beside the listed one",
			[]OperationPolicy{global(OperationOverlay{AllowedArtifactSources: []string{"s3:models/public"}})},
			func(a *OperationAsk) { a.Sources = []string{"s3:models/public/../private"} }, "artifact_source_denied", "global policy",
		},
		{
			"no sources",
			[]OperationPolicy{global(OperationOverlay{AllowedArtifactSources: []string{}})},
			nil,
			"artifact_source_denied", "allowed_artifact_sources has no entry",
		},
		{
			"nothing is brought",
			[]OperationPolicy{global(OperationOverlay{AllowedArtifactSources: []string{}, MaxArtifactSizeBytes: new(int64(1))})},
			func(a *OperationAsk) { a.Sources, a.MaxArtifactBytes = nil, 0 }, "", "",
		},
		{
			"a target kind",
			[]OperationPolicy{at(projectPlace, stage, OperationOverlay{AllowedTargetKinds: []string{"allocation"}})},
			nil,
			"target_kind_denied", "on target kind node: denied by the project's policy for model.artifact.stage: allowed_target_kinds has only allocation",
		},
		{
			"a target kind that is unknown",
			[]OperationPolicy{global(OperationOverlay{AllowedTargetKinds: []string{"node"}})},
			func(a *OperationAsk) { a.TargetKind = "rack" }, "target_kind_denied", "on target kind rack",
		},
		{
			"too large",
			[]OperationPolicy{global(OperationOverlay{MaxArtifactSizeBytes: new(int64(100))})},
			nil,
			"artifact_size_denied", "with artifacts of up to 1073741824 bytes: denied by the global policy for model.artifact.stage: max_artifact_size_bytes is 100",
		},
		{
			"of unknown size",
			[]OperationPolicy{global(OperationOverlay{MaxArtifactSizeBytes: new(int64(1 << 40))})},
			func(a *OperationAsk) { a.MaxArtifactBytes = 0 }, "artifact_size_denied", "artifacts of up to unknown bytes",
		},
		{
			"too long",
			[]OperationPolicy{global(OperationOverlay{TimeoutSeconds: new(int64(3599))})},
			nil,
			"operation_timeout_denied", "for up to 3600 seconds: denied by the global policy for model.artifact.stage: timeout_seconds is 3599",
		},
		{
			"of unknown length",
			[]OperationPolicy{global(OperationOverlay{TimeoutSeconds: new(int64(3600))})},
			func(a *OperationAsk) { a.Timeout = 0 }, "operation_timeout_denied", "for up to unknown seconds",
		},
		{
			"too many",
			[]OperationPolicy{global(OperationOverlay{MaxConcurrency: new(int64(2))})},
			func(a *OperationAsk) { a.Running = 2 }, "operation_concurrency_denied",
			"beside 2 executions under way: denied by the global policy for model.artifact.stage: max_concurrency is 2",
		},
		{
			"a condition",
			[]OperationPolicy{
				global(OperationOverlay{Conditions: []OperationCondition{{"by_day", "true", "by day"}}}),
				at(tenantPlace, AllOperations, OperationOverlay{Conditions: []OperationCondition{{"by_day", "true", "by day"}, {"small", "false", "ask the owner of the budget"}}}),
			},
			nil,
			"operation_condition_denied", "cannot run model.artifact.stage: denied by the tenant's policy for all operations: " +
				"conditions has small, which is not true: ask the owner of the budget (see",
		},
		{
			"a condition that fails",
			[]OperationPolicy{at(projectPlace, stage, OperationOverlay{Conditions: []OperationCondition{{"small", "away", "no"}}})},
			nil,
			"operation_condition_denied", "the project's policy for model.artifact.stage: conditions has small, which cannot be judged: nobody knows (see",
		},
		{
			"a condition without a judge",
			[]OperationPolicy{global(OperationOverlay{Conditions: []OperationCondition{{"small", "true", "no"}}})},
			func(a *OperationAsk) { a.Holds = nil }, "operation_condition_denied", "has small, which nothing can judge",
		},
		{
			"of another project", []OperationPolicy{
				at(Place{"org-1", "prj-2"}, stage, OperationOverlay{Enabled: new(false)}),
				at(Place{OrganisationID: "org-2"}, stage, OperationOverlay{Enabled: new(false)}),
				at(projectPlace, "gpu.host.bootstrap", OperationOverlay{Enabled: new(false)}),
			}, nil, "", "",
		},
	} {
		ask := stageAsk()
		if c.change != nil {
			c.change(&ask)
		}
		err := MergeOperationPolicies(projectPlace, stage, c.rows).Permit(ask)
		if codeOf(err) != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q %v\nwant %q %s", c.name, codeOf(err), err, c.code, c.says)
		}
	}
}

func codeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// Two lists without a common entry permit nothing, and the answer names both levels.
func TestListsWithoutACommonEntryDenyEverything(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  []OperationPolicy
		apart OperationRule
	}{
		{"two levels", []OperationPolicy{
			global(OperationOverlay{AllowedTargetKinds: []string{"node"}}),
			at(projectPlace, stage, OperationOverlay{AllowedTargetKinds: []string{"allocation"}}),
		}, OperationRule{OperationGlobal, stage}},
		{"three levels, and the first and the last part", []OperationPolicy{
			global(OperationOverlay{AllowedTargetKinds: []string{"node", "group"}}),
			at(tenantPlace, AllOperations, OperationOverlay{AllowedTargetKinds: []string{"node", "group", "allocation"}}),
			at(projectPlace, stage, OperationOverlay{AllowedTargetKinds: []string{"allocation"}}),
		}, OperationRule{OperationGlobal, stage}},
		{"three levels, none of which part by two", []OperationPolicy{
			global(OperationOverlay{AllowedTargetKinds: []string{"node", "group"}}),
			at(tenantPlace, AllOperations, OperationOverlay{AllowedTargetKinds: []string{"node", "allocation"}}),
			at(projectPlace, stage, OperationOverlay{AllowedTargetKinds: []string{"group", "allocation"}}),
		}, OperationRule{OperationTenant, AllOperations}},
	} {
		e := MergeOperationPolicies(projectPlace, stage, c.rows)
		d := e.By["allowed_target_kinds"]
		if len(e.Overlay.AllowedTargetKinds) > 0 || d.Rule != (OperationRule{OperationProject, stage}) || d.Apart == nil || *d.Apart != c.apart {
			t.Errorf("%s: %v, decided by %v, apart from %v", c.name, e.Overlay.AllowedTargetKinds, d.Rule, d.Apart)
		}
		for _, kind := range OperationTargetKinds {
			ask := stageAsk()
			ask.TargetKind = kind
			err := e.Permit(ask)
			if codeOf(err) != "target_kind_denied" || !strings.Contains(err.Error(),
				c.apart.String()+" and the project's policy for model.artifact.stage have none in common") {
				t.Errorf("%s, %s: %v", c.name, kind, err)
			}
		}
	}
}

// Every key says which level set or narrowed it.
func TestEachKeyKnowsWhoDecidedIt(t *testing.T) {
	e := MergeOperationPolicies(projectPlace, stage, []OperationPolicy{
		at(projectPlace, stage, OperationOverlay{
			TimeoutSeconds: new(int64(600)), MaxConcurrency: new(int64(9)), AllowedArtifactSources: []string{"s3:models/public", "s3:none"},
		}),
		at(tenantPlace, AllOperations, OperationOverlay{MaxConcurrency: new(int64(3)), RequireSignatureVerification: new(true)}),
		global(OperationOverlay{Enabled: new(true), MaxConcurrency: new(int64(5)), AllowedArtifactSources: []string{"s3:models"}}),
		at(Place{}, AllOperations, OperationOverlay{TimeoutSeconds: new(int64(600))}),
	})
	want := OperationOverlay{
		Enabled: new(true), MaxConcurrency: new(int64(3)), TimeoutSeconds: new(int64(600)),
		AllowedArtifactSources: []string{"s3:models/public"}, RequireSignatureVerification: new(true),
	}
	by := map[string]OperationDecision{
		"enabled":                        {Rule: OperationRule{OperationGlobal, stage}},
		"max_concurrency":                {Rule: OperationRule{OperationTenant, AllOperations}},
		"timeout_seconds":                {Rule: OperationRule{OperationGlobal, AllOperations}},
		"allowed_artifact_sources":       {Rule: OperationRule{OperationProject, stage}},
		"require_signature_verification": {Rule: OperationRule{OperationTenant, AllOperations}},
	}
	if !reflect.DeepEqual(e.Overlay, want) || !reflect.DeepEqual(e.By, by) || !e.RequiresSignature() {
		t.Errorf("%+v\ndecided by %+v", e.Overlay, e.By)
	}
}

// The list of all levels names no source twice.
func TestASourceBelowAListedOneIsNotListedAgain(t *testing.T) {
	e := MergeOperationPolicies(projectPlace, stage, []OperationPolicy{
		global(OperationOverlay{AllowedArtifactSources: []string{"s3:a/b", "s3:a", "s3:a/b/c", "s3:ab", "s3:a"}}),
	})
	if want := []string{"s3:a", "s3:ab"}; !slices.Equal(e.Overlay.AllowedArtifactSources, want) {
		t.Errorf("%v, want %v", e.Overlay.AllowedArtifactSources, want)
	}
	e = MergeOperationPolicies(projectPlace, stage, []OperationPolicy{
		global(OperationOverlay{AllowedArtifactSources: []string{"oci:r.example:443/a"}}),
		at(tenantPlace, stage, OperationOverlay{AllowedArtifactSources: []string{"oci:r.example/a"}}),
	})
	if want := []string{"oci:r.example/a"}; !slices.Equal(e.Overlay.AllowedArtifactSources, want) {
		t.Errorf("of two spellings: %v, want %v", e.Overlay.AllowedArtifactSources, want)
	}
}

func TestAPolicyThatWidensIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		wider OperationOverlay
		sets  OperationOverlay
		says  string // empty: accepted
	}{
		{
			"on where off",
			OperationOverlay{Enabled: new(false)},
			OperationOverlay{Enabled: new(true)},
			"cannot set enabled of the project's policy for model.artifact.stage to true: the tenant's policy for all operations has false, which",
		},
		{"off where on", OperationOverlay{Enabled: new(true)}, OperationOverlay{Enabled: new(false)}, ""},
		{"on where nothing is said", OperationOverlay{TimeoutSeconds: new(int64(60))}, OperationOverlay{Enabled: new(true)}, ""},
		{
			"longer",
			OperationOverlay{TimeoutSeconds: new(int64(60))},
			OperationOverlay{TimeoutSeconds: new(int64(61))},
			"cannot set timeout_seconds of the project's policy for model.artifact.stage to 61: the tenant's policy for all operations has 60",
		},
		{"as long", OperationOverlay{TimeoutSeconds: new(int64(60))}, OperationOverlay{TimeoutSeconds: new(int64(60))}, ""},
		{
			"a wider source",
			OperationOverlay{AllowedArtifactSources: []string{"s3:models/public"}},
			OperationOverlay{AllowedArtifactSources: []string{"s3:models/public/a", "s3:models"}},
			"to s3:models: the tenant's policy for all operations has s3:models/public",
		},
		{
			"a narrower source",
			OperationOverlay{AllowedArtifactSources: []string{"s3:models"}},
			OperationOverlay{AllowedArtifactSources: []string{"s3:models/public"}},
			"",
		},
		{"no sources", OperationOverlay{AllowedArtifactSources: []string{"s3:models"}}, OperationOverlay{AllowedArtifactSources: []string{}}, ""},
		{
			"another target kind",
			OperationOverlay{AllowedTargetKinds: []string{"node"}},
			OperationOverlay{AllowedTargetKinds: []string{"group"}},
			"cannot set allowed_target_kinds",
		},
		{
			"without signature",
			OperationOverlay{RequireSignatureVerification: new(true)},
			OperationOverlay{RequireSignatureVerification: new(false)},
			"cannot set require_signature_verification",
		},
	} {
		p := at(projectPlace, stage, c.sets)
		err := p.CheckNarrows([]OperationPolicy{
			at(projectPlace, stage, OperationOverlay{Enabled: new(false), AllowedArtifactSources: []string{}}), // p replaces it
			at(tenantPlace, AllOperations, c.wider),
		})
		want := ""
		if c.says != "" {
			want = "policy_cannot_widen"
		}
		if codeOf(err) != want || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q %s", c.name, err, want, c.says)
		}
	}
	all := at(tenantPlace, AllOperations, OperationOverlay{Enabled: new(true)})
	if err := all.CheckNarrows([]OperationPolicy{global(OperationOverlay{Enabled: new(false)})}); err != nil {
		t.Errorf("a policy for all operations is held against that of one operation: %v", err)
	}
}

func TestAnOverlayHasKnownValuesOnly(t *testing.T) {
	many := slices.Repeat([]string{"s3:models"}, 33)
	for _, c := range []struct{ raw, says string }{
		{`{"enabled":true}`, ""},
		{`{"allowed_artifact_sources":[],"allowed_target_kinds":["node","allocation","group"]}`, ""},
		{`{}`, "has no key"},
		{`{"allowed_artifact_sources":null}`, "has no key"},
		{`{"enabled":"false"}`, "cannot be read"},
		{`{"enabled":false,"enabled":true}`, "cannot be read"},
		{`{"max_anything":1}`, "cannot be read"},
		{`{"max_concurrency":0}`, "max_concurrency is not between 1 and 10000"},
		{`{"timeout_seconds":-1}`, "timeout_seconds is not between 1 and 86400"},
		{`{"timeout_seconds":86401}`, "timeout_seconds is not"},
		{`{"max_artifact_size_bytes":99999999999999}`, "max_artifact_size_bytes is not between 1 and 17592186044416"},
		{`{"allowed_target_kinds":["rack"]}`, `allowed_target_kinds has "rack", which is no kind of target (node, allocation, group)`},
		{`{"allowed_artifact_sources":["s3:models/../x"]}`, `has "s3:models/../x", which is no source`},
		{`{"allowed_artifact_sources":["oci:r.example:443/m"]}`, `has "oci:r.example:443/m", which is another spelling of oci:r.example/m (write it so)`},
		{`{"conditions":[]}`, "has no key"},
		{`{"conditions":[{"name":"small","expression":"node_count < 3 &&\n\thour > 8","message":"ask Ada"}]}`, ""},
		{`{"conditions":[{"name":"small","expression":"true","message":"m"},{"name":"small","expression":"false","message":"m"}]}`, "conditions has small twice"},
		{`{"conditions":[{"name":"Small!","expression":"true","message":"m"}]}`, `conditions has the name "Small!"`},
		{`{"conditions":[{"name":"small","expression":" ","message":"m"}]}`, "conditions has small, whose expression is not"},
		{`{"conditions":[{"name":"small","expression":"` + strings.Repeat("x", 1025) + `","message":"m"}]}`, "a text of 1 to 1024 bytes"},
		{`{"conditions":[{"name":"small","expression":"true\u001b","message":"m"}]}`, "without control characters"},
		{`{"conditions":[{"name":"small","expression":"true","message":""}]}`, "conditions has small, whose message is not one line of 1 to 200 bytes"},
		{`{"conditions":[{"name":"small","expression":"true","message":"a\nb"}]}`, "whose message is not one line"},
		{`{"conditions":[{"name":"small","expression":"true","message":"m","level":"global"}]}`, "cannot be read"},
		{`{"allowed_artifact_sources":["s3:a\u001b[2J"]}`, `has "s3:a\\x1b[2J", which`},
	} {
		_, err := OperationPolicyOf([]byte(c.raw))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.raw, err, c.says)
		}
	}
	if err := (OperationOverlay{AllowedArtifactSources: many}).Check(); err == nil || !strings.Contains(err.Error(), "has 33 entries (at most 32)") {
		t.Errorf("a huge list: %v", err)
	}
	if err := (OperationOverlay{Conditions: make([]OperationCondition, 17)}).Check(); err == nil || !strings.Contains(err.Error(), "conditions has 17 entries (at most 16)") {
		t.Errorf("many conditions: %v", err)
	}
	for _, bad := range []string{"", "stage", "model.artifact.stage@v1", "Model.stage", "model.*", "**", "a." + strings.Repeat("b", 70), "model.stage\n"} {
		if codeOf(CheckOperation(bad)) != "operation_invalid" {
			t.Errorf("%q is an operation", bad)
		}
	}
}

// drawOverlay draws an overlay from few values, so that overlays meet.
func drawOverlay(t *rapid.T, name string) (o OperationOverlay) {
	limit := func(key string) *int64 {
		if !rapid.Bool().Draw(t, name+" sets "+key) {
			return nil
		}
		return new(rapid.Int64Range(1, 3).Draw(t, name+" "+key))
	}
	yes := func(key string) *bool {
		return rapid.SampledFrom([]*bool{nil, new(true), new(false)}).Draw(t, name+" "+key)
	}
	list := func(key string, of []string) []string {
		if !rapid.Bool().Draw(t, name+" sets "+key) {
			return nil
		}
		return rapid.SliceOfN(rapid.SampledFrom(of), 0, 4).Draw(t, name+" "+key)
	}
	return OperationOverlay{
		Enabled: yes("enabled"), RequireSignatureVerification: yes("signature"),
		MaxConcurrency: limit("concurrency"), TimeoutSeconds: limit("timeout"), MaxArtifactSizeBytes: limit("size"),
		AllowedArtifactSources: list("sources", []string{"s3:a", "s3:a/b", "s3:a/b/c", "s3:a/d", "s3:ab", "gcs:a"}),
		AllowedTargetKinds:     list("kinds", OperationTargetKinds),
		Conditions:             drawConditions(t, name),
	}
}

// drawConditions draws conditions whose expressions are their verdicts.
func drawConditions(t *rapid.T, name string) (all []OperationCondition) {
	for _, c := range []string{"a", "b"} {
		if rapid.Bool().Draw(t, name+" has condition "+c) {
			verdict := rapid.SampledFrom([]string{"true", "false", "away"}).Draw(t, name+" condition "+c)
			all = append(all, OperationCondition{Name: c, Expression: verdict, Message: "ask " + c})
		}
	}
	return all
}

// judged is the verdict that drawConditions means.
func judged(c OperationCondition) (bool, error) {
	if c.Expression == "away" {
		return true, errors.New("nobody knows")
	}
	return c.Expression == "true", nil
}

func drawAsk(t *rapid.T) OperationAsk {
	return OperationAsk{
		TargetKind: rapid.SampledFrom(append([]string{"", "rack"}, OperationTargetKinds...)).Draw(t, "kind"),
		Sources: rapid.SliceOfN(rapid.SampledFrom([]string{"s3:a", "s3:a/b", "s3:a/b/c/d", "s3:a/d/x", "s3:ab", "s3:abc", "gcs:a/b", "s3:a/../a"}), 0, 3).
			Draw(t, "sources"),
		MaxArtifactBytes: rapid.Int64Range(0, 4).Draw(t, "size"),
		Timeout:          time.Duration(rapid.Int64Range(0, 4).Draw(t, "timeout")) * time.Second,
		Running:          rapid.Int64Range(0, 4).Draw(t, "running"),
		Holds:            judged,
	}
}

func drawPolicies(t *rapid.T) []OperationPolicy {
	var all []OperationPolicy
	for _, p := range []Place{{}, tenantPlace, projectPlace} {
		for _, operation := range []string{AllOperations, stage} {
			if name := p.ProjectID + p.OrganisationID + operation; rapid.Bool().Draw(t, "there is "+name) {
				all = append(all, at(p, operation, drawOverlay(t, name)))
			}
		}
	}
	return rapid.Permutation(all).Draw(t, "order")
}

// onlyKey returns the overlay without all other keys.
func onlyKey(o OperationOverlay, key string) OperationOverlay {
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name != key {
			v.Field(i).SetZero()
		}
	}
	return o
}

// permits is what an overlay says, told again in the plainest words.
func permits(o OperationOverlay, ask OperationAsk) bool {
	below := func(list []string, source string) bool {
		return slices.ContainsFunc(list, func(l string) bool { return source == l || strings.HasPrefix(source, l+"/") }) && !strings.Contains(source, "..")
	}
	for _, s := range ask.Sources {
		if o.AllowedArtifactSources != nil && !below(o.AllowedArtifactSources, s) {
			return false
		}
		if m := o.MaxArtifactSizeBytes; m != nil && (ask.MaxArtifactBytes == 0 || ask.MaxArtifactBytes > *m) {
			return false
		}
	}
	for _, c := range o.Conditions {
		if c.Expression != "true" {
			return false
		}
	}
	return !(o.Enabled != nil && !*o.Enabled ||
		o.AllowedTargetKinds != nil && !slices.Contains(o.AllowedTargetKinds, ask.TargetKind) ||
		o.TimeoutSeconds != nil && (ask.Timeout == 0 || int64(ask.Timeout/time.Second) > *o.TimeoutSeconds) ||
		o.MaxConcurrency != nil && ask.Running >= *o.MaxConcurrency)
}

// What runs is what each level permits by itself: no level widens another, in no order.
func TestNoOverlayWidensADenial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, ask := drawPolicies(t), drawAsk(t)
		if only := rapid.SampledFrom(append([]string{""}, OperationKeys()...)).Draw(t, "only key"); only != "" {
			for i := range all {
				all[i].Overlay = onlyKey(all[i].Overlay, only)
			}
		}
		e := MergeOperationPolicies(projectPlace, stage, all)
		err, signed := e.Permit(ask), false
		want := true
		for _, p := range all {
			want = want && permits(p.Overlay, ask)
			signed = signed || p.Overlay.RequireSignatureVerification != nil && *p.Overlay.RequireSignatureVerification
		}
		if (err == nil) != want || e.RequiresSignature() != signed {
			t.Fatalf("permitted: %v, and each level permits: %v; signed: %v", err, want, signed)
		}
		if permits(e.Overlay, ask) != want {
			t.Fatalf("the overlay of all levels, %+v, says something else than the levels", e.Overlay)
		}
		more := append(slices.Clone(all), at(projectPlace, "x.y", drawOverlay(t, "of another operation")))
		if i := rapid.IntRange(0, len(all)).Draw(t, "replaced"); i < len(all) {
			more[i].Overlay = more[i].Overlay.Narrow(drawOverlay(t, "narrower"))
		}
		if err != nil && MergeOperationPolicies(projectPlace, stage, more).Permit(ask) == nil {
			t.Fatal("narrower policies permit what was denied")
		}
		if err != nil && !slices.ContainsFunc(all, func(p OperationPolicy) bool {
			return strings.Contains(err.Error(), "denied by "+p.Rule().String()+": ") && !permits(p.Overlay, ask)
		}) {
			t.Fatalf("%v: this level denies nothing", err)
		}
	})
}

// Whoever may only narrow a policy keeps each of its conditions, and may add others.
func TestAPolicyWithoutAConditionPermitsMore(t *testing.T) {
	had := OperationOverlay{Conditions: []OperationCondition{{"small", "x", "m"}, {"day", "y", "m"}}}
	for _, c := range []struct {
		o    OperationOverlay
		want string
	}{
		{OperationOverlay{Enabled: new(true)}, "conditions"},
		{OperationOverlay{Conditions: had.Conditions[:1]}, "conditions"},
		{OperationOverlay{Conditions: []OperationCondition{{"small", "x || true", "m"}, {"day", "y", "m"}}}, "conditions"},
		{OperationOverlay{Conditions: append([]OperationCondition{{"new", "z", "m"}, {"renamed", "y", "other words"}}, had.Conditions[0])}, ""},
	} {
		if got := c.o.Beyond(had); got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
}

func TestNarrowIsALattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawOverlay(t, "a"), drawOverlay(t, "b"), drawOverlay(t, "c")
		same := func(what string, x, y OperationOverlay) {
			if !reflect.DeepEqual(x, y) {
				t.Fatalf("%s:\n%+v\n%+v", what, x, y)
			}
		}
		same("associative", a.Narrow(b).Narrow(c), a.Narrow(b.Narrow(c)))
		same("commutative", a.Narrow(b), b.Narrow(a))
		same("idempotent", a.Narrow(b).Narrow(b), a.Narrow(b))
		same("nothing said", a.Narrow(a), OperationOverlay{}.Narrow(a))
	})
}

// A policy is refused exactly if a key of it has no effect as written.
func TestARefusedPolicyHasAKeyWithoutEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wider := slices.DeleteFunc(drawPolicies(t), func(p OperationPolicy) bool { return p.Place == projectPlace })
		p := at(projectPlace, stage, drawOverlay(t, "set"))
		own, e := p.Overlay.Narrow(p.Overlay), MergeOperationPolicies(projectPlace, stage, append(wider, p))
		inEffect := true
		for _, k := range operationKeys {
			if k.Name == operationConditionsName { // each is in effect, beside those of the wider levels
				for _, c := range p.Overlay.Conditions {
					inEffect = inEffect && slices.Contains(e.Overlay.Conditions, c)
				}
				continue
			}
			if k.value(own) != nil && !reflect.DeepEqual(k.value(own), k.value(e.Overlay)) {
				inEffect = false
			}
		}
		if err := p.CheckNarrows(wider); (err == nil) != inEffect {
			t.Fatalf("%v, and all keys are in effect: %v", err, inEffect)
		}
	})
}

// The overlay of all levels is stored nowhere, but each overlay is: a stored overlay is read as it was.
func TestAStoredOverlayIsReadAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOverlay(t, "o")
		raw, err := taskcatalog.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		got, err := OperationPolicyOf(raw)
		if o.Check() != nil {
			if codeOf(err) != "operation_policy_unreadable" {
				t.Fatalf("%s: %v", raw, err)
			}
			return
		}
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Fatalf("%s: %+v, %v, want %+v", raw, got, err, o)
		}
	})
}
