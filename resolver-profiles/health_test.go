package profiles

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

const fallbackOnly = "hardware_profiles: [{name: rest, match: {}, overrides: {}}]\n"

func TestRulesOfHealthAreChecked(t *testing.T) {
	for rule, code := range map[string]string{
		`{field: nonsense, above: 1, verdict: failed, says: x}`:                   string(CodeBadName),
		`{field: ecc_total, verdict: failed, says: x}`:                            string(CodeBadArg),
		`{field: ecc_total, above: 1, grew: 1, verdict: failed, says: x}`:         string(CodeBadArg),
		`{field: ecc_total, above: 1, verdict: healthy, says: x}`:                 string(CodeBadArg),
		`{field: ecc_total, above: 1, verdict: broken, says: x}`:                  string(CodeBadArg),
		`{field: ecc_total, above: 1, verdict: failed, says: ""}`:                 string(CodeOutOfBounds),
		`{field: ecc_total, above: 1, verdict: failed}`:                           string(CodeMissingKey),
		`{field: ecc_total, above: 1, looks: 2000, verdict: failed, says: x}`:     string(CodeOutOfBounds),
		`{field: ecc_total, grew: -1, verdict: failed, says: x}`:                  string(CodeOutOfBounds),
		`{field: fabric, above: 1, verdict: failed, says: x}`:                     string(CodeBadArg),
		`{field: xid, above: 1, verdict: failed, says: x}`:                        string(CodeBadArg),
		`{field: pcie_width, below_field: pcie_width, verdict: failed, says: x}`:  string(CodeBadName),
		`{field: pcie_width, below_field: fabric, verdict: failed, says: x}`:      string(CodeBadName),
		`{field: recovery, in: ["a b"], verdict: failed, says: x}`:                string(CodeUnknownMatchValue),
		`{field: ecc_total, above: one, verdict: failed, says: x}`:                string(CodeWrongType),
		`{field: ecc_total, above: 1, sometimes: true, verdict: failed, says: x}`: string(CodeUnknownKey),
	} {
		_, found := Parse(File{Name: "s.yaml", Text: []byte(fallbackOnly + "health: {rules: [" + rule + "]}\n")})
		if !slices.ContainsFunc(found, func(p Problem) bool { return string(p.Code) == code && p.Line == 2 }) {
			t.Errorf("%s: %v, want %s in line 2", rule, found, code)
		}
	}
	for _, every := range []string{"0", "9", "3601", "-1"} {
		if _, found := Parse(File{Name: "s.yaml", Text: []byte(fallbackOnly + "health: {every_seconds: " + every + "}\n")}); len(found) == 0 {
			t.Errorf("a look every %s s was taken", every)
		}
	}
}

func TestASetsRulesTakeThePlaceOfTheCompiledIn(t *testing.T) {
	own := Minimal()
	if own.HealthEvery() != time.Minute || len(own.HealthRules()) < 10 {
		t.Errorf("every %s, %d rules", own.HealthEvery(), len(own.HealthRules()))
	}
	set, found := Parse(File{Name: "s.yaml", Text: []byte(fallbackOnly +
		"health: {every_seconds: 30, rules: [{field: pcie_width, below: 8, looks: 5, verdict: failed, says: too narrow}]}\n")})
	if found != nil {
		t.Fatal(found)
	}
	raw, err := set.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, found := Decode(raw)
	if found != nil || back.Digest() != set.Digest() {
		t.Fatalf("%v", found)
	}
	var tests []string
	for _, r := range back.HealthRules() {
		if r.Field == "pcie_width" {
			tests = append(tests, r.Test())
		}
	}
	if back.HealthEvery() != 30*time.Second || !slices.Equal(tests, []string{"below 8"}) {
		t.Errorf("every %s: %q", back.HealthEvery(), tests)
	}
	if len(back.HealthRules()) != len(own.HealthRules())-1 { // two were there
		t.Errorf("%d rules", len(back.HealthRules()))
	}
	if raw, _ := own.Encode(); bytes.Contains(raw, []byte("health")) {
		t.Error("a set without rules of its own names health: older agents refuse it")
	}
}
