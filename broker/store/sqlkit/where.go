package sqlkit

import (
	"fmt"
	"strconv"
	"strings"
)

// Where is a WHERE clause in the making. The zero value has no condition. Arguments that Args has
// from the start come first, so that a nested clause counts on from the outer clause's arguments.
type Where struct {
	Terms []string
	Args  []any
}

// Add adds a condition; each ? becomes the next placeholder. Arguments beyond the last ? belong to
// placeholders that are numbered already, as those of a nested clause.
func (w *Where) Add(term string, args ...any) {
	var numbered strings.Builder
	for _, a := range args {
		w.Args = append(w.Args, a)
		before, after, more := strings.Cut(term, "?")
		if !more {
			continue
		}
		numbered.WriteString(before)
		numbered.WriteString("$")
		numbered.WriteString(strconv.Itoa(len(w.Args)))
		term = after
	}
	w.Terms = append(w.Terms, numbered.String()+term)
}

// Equal adds column = value; an empty value adds no condition.
func (w *Where) Equal(column, value string) {
	if value != "" {
		w.Add(column+" = ?", value)
	}
}

// In adds column IN (…); an empty list adds no condition.
func In[S ~string](w *Where, column string, values []S) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = string(v)
	}
	w.Add(column+" IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(values)), ", ")+")", args...)
}

// Limit returns a LIMIT clause, with its number as the next argument.
func (w *Where) Limit(n int) string {
	w.Args = append(w.Args, n)
	return fmt.Sprintf(" LIMIT $%d", len(w.Args))
}

// String returns the clause, with a space before it; without a condition, nothing.
func (w *Where) String() string {
	if len(w.Terms) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.Terms, " AND ")
}
