package sqlkit_test

import (
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

func ExampleWhere() {
	var w sqlkit.Where
	w.Equal("site", "dc1")
	w.Equal("owner", "") // no condition
	sqlkit.In(&w, "status", []string{"active", "offline"})
	w.Add("(due_at <= ? OR updated_at <= ?)", 7, 9)
	fmt.Println("SELECT id FROM runs" + w.String() + " ORDER BY id" + w.Limit(10))
	fmt.Println(w.Args...)
	// Output:
	// SELECT id FROM runs WHERE site = $1 AND status IN ($2, $3) AND (due_at <= $4 OR updated_at <= $5) ORDER BY id LIMIT $6
	// dc1 active offline 7 9 10
}

// A clause inside another clause must not take the outer clause's placeholders.
func TestANestedClauseCountsOn(t *testing.T) {
	outer := sqlkit.Where{Args: []any{"first"}, Terms: []string{"a = $1"}}
	inner := sqlkit.Where{Args: outer.Args}
	sqlkit.In(&inner, "b", []string{"second"})
	outer.Args, outer.Terms = inner.Args, append(outer.Terms, "c IN (SELECT d FROM e"+inner.String()+")")
	outer.Equal("f", "third")
	if got, want := outer.String(), " WHERE a = $1 AND c IN (SELECT d FROM e WHERE b IN ($2)) AND f = $3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := fmt.Sprint(outer.Args); got != "[first second third]" {
		t.Error(got)
	}
}

func TestNoConditionIsNoClause(t *testing.T) {
	var w sqlkit.Where
	sqlkit.In(&w, "a", []string(nil))
	if got := w.String(); got != "" || len(w.Args) != 0 {
		t.Errorf("%q with %v", got, w.Args)
	}
}

// A nested clause brings its arguments with its placeholders, which have their numbers already.
func TestANumberedConditionKeepsItsPlaceholders(t *testing.T) {
	var outer, inner sqlkit.Where
	sqlkit.In(&inner, "b", []string{"first", "second"})
	outer.Add("c IN (SELECT d FROM e"+inner.String()+")", inner.Args...)
	outer.Equal("f", "third")
	if got, want := outer.String(), " WHERE c IN (SELECT d FROM e WHERE b IN ($1, $2)) AND f = $3"; got != want || len(outer.Args) != 3 {
		t.Errorf("%s with %v, want %s", got, outer.Args, want)
	}
}
