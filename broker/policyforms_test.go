package broker

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// filled is a policy with a value other than zero in every field.
func filled(t *testing.T) (p Policy) {
	t.Helper()
	v := reflect.ValueOf(&p).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous {
			continue
		}
		set := map[reflect.Kind]any{
			reflect.Bool: true, reflect.Int: 7, reflect.String: "text", reflect.Pointer: new(9),
			reflect.Map: map[string]int{"a": 1}, reflect.Slice: []string{"b"},
		}[f.Type.Kind()]
		if set == nil {
			t.Fatalf("%s is of a kind that the test does not know", f.Name)
		}
		v.FieldByIndex(f.Index).Set(reflect.ValueOf(set))
	}
	return p
}

// A policy is stored in a profile's row and in an onboarding's state; the part for turnovers is
// stored in a turnover's state under names of its own, and a certificate holds the digest of that
// part's bytes. The order of members counts for the digest only.
func TestTheStoredFormsOfAPolicyAreFixed(t *testing.T) {
	const golden = "testdata/policyforms.golden"
	var got strings.Builder
	for _, row := range []struct {
		name   string
		policy Policy
	}{{"the default", DefaultPolicy()}, {"filled", filled(t)}, {"empty", Policy{}}} {
		stored, err := json.Marshal(row.policy)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(stored, &members); err != nil {
			t.Fatal(err)
		}
		sorted, err := json.MarshalIndent(members, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		copied, err := json.Marshal(row.policy.Turnover())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s: %s\nfor a turnover: %s\n", row.name, sorted, copied)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the stored form of a policy has changed:\n%s", got.String())
	}
}
