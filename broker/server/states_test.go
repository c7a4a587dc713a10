package server

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	agentrecords "github.com/hostler/hostler/broker/agentlifecycle/records"
	"github.com/hostler/hostler/broker/allocation"
	"github.com/hostler/hostler/broker/onboarding"
	"github.com/hostler/hostler/broker/operation"
	"github.com/hostler/hostler/broker/turnover"
)

var update = flag.Bool("update", false, "write testdata/states.golden anew")

// A broker of the previous release cannot read a new field of a state: the state's form number
// tells that broker to leave the run alone.
func TestAStateOfAnotherShapeIsOfAnotherForm(t *testing.T) {
	const file = "testdata/states.golden"
	was := map[string][2]string{}
	raw, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		was[f[0]] = [2]string{f[1], f[2]}
	}
	var now strings.Builder
	for _, k := range kinds(new(onboarding.Chains), new(turnover.Chains), new(agentrecords.Nodes), new(allocation.Chains), new(operation.Chains)) {
		c := reflect.ValueOf(k)
		kind, form := c.FieldByName("Kind").String(), fmt.Sprint(c.FieldByName("Form").Int())
		marking := c.FieldByName("Marking").Type() // func(*S, string)
		shape := fmt.Sprintf("%x", sha256.Sum256([]byte(shapeOf(marking.In(0).Elem(), map[reflect.Type]bool{}))))[:16]
		old, known := was[kind]
		if known && old[1] != shape && old[0] == form {
			t.Errorf("the state of %s has another shape, and is of form %s as before: raise the Form of its chain, and run this test with -update", kind, form)
		} else if old != [2]string{form, shape} && !*update {
			t.Errorf("%s is of form %s and shape %s, and not of %v: run this test with -update", kind, form, shape, old)
		}
		_, _ = fmt.Fprintln(&now, kind, form, shape)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(file, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The texts about a run for people, and the rules that hold while the run is under way, stand in
// the row of its kind.
func TestEachKindOfRunHasARow(t *testing.T) {
	used := map[string]bool{}
	for _, k := range kinds(new(onboarding.Chains), new(turnover.Chains), new(agentrecords.Nodes), new(allocation.Chains), new(operation.Chains)) {
		kind := reflect.ValueOf(k).FieldByName("Kind").String()
		row := broker.RunKindOf(kind)
		used[row.Name] = true
		if !slices.ContainsFunc(broker.RunKinds, func(r broker.RunKind) bool { return r.Name == row.Name }) {
			t.Errorf("%s has no row", kind)
		}
	}
	for _, row := range broker.RunKinds {
		if !used[row.Name] {
			t.Errorf("no chain is of kind %s", row.Name)
		}
	}
}

// shapeOf is the JSON shape of a type: the names and types of all members, sorted. A type that
// moves to another package, and a member that moves to another place or into an embedded struct,
// keep the shape.
func shapeOf(t reflect.Type, seen map[reflect.Type]bool) string {
	if t.Implements(reflect.TypeFor[json.Marshaler]()) || seen[t] {
		return t.Name()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + shapeOf(t.Elem(), seen)
	case reflect.Slice, reflect.Array:
		return "[]" + shapeOf(t.Elem(), seen)
	case reflect.Map:
		return "{" + shapeOf(t.Key(), seen) + ":" + shapeOf(t.Elem(), seen) + "}"
	case reflect.Struct:
		seen[t] = true
		members := membersOf(t, seen)
		slices.Sort(members)
		return "{" + strings.Join(members, "") + "}"
	}
	return t.Kind().String()
}

func membersOf(t reflect.Type, seen map[reflect.Type]bool) (members []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-": // has no JSON
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			members = append(members, membersOf(f.Type, seen)...)
		case f.IsExported():
			members = append(members, name+" "+shapeOf(f.Type, seen)+";")
		}
	}
	return members
}
