package adminapi_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/hostler/hostler/test/manual"
)

// eventField is a field of an event's data, or the data itself.
type eventField struct {
	Ref         string `yaml:"$ref"`
	Type        string
	Format      string
	Description string
	Enum        []string
	Required    []string
	Properties  yaml.Node
	AllOf       []eventField `yaml:"allOf"`
}

// eventDocument is the part of the AsyncAPI document that the page of events shows.
type eventDocument struct {
	Components struct{ Messages, Schemas yaml.Node }
}

// schema decodes a schema of the document.
func (doc *eventDocument) schema(t *testing.T, name string, into any) {
	t.Helper()
	all := map[string]yaml.Node{}
	if err := doc.Components.Schemas.Decode(&all); err != nil {
		t.Fatal(err)
	}
	node := all[name]
	if err := node.Decode(into); err != nil {
		t.Fatal(err)
	}
}

const eventsPageCommand = "go test ./broker/adminapi -run TestThePageHasTheEvents -update"

const eventsPageMark = "## Types\n"

const eventsPageHead = eventsPageMark + `
This part is generated from [asyncapi.yaml](asyncapi.yaml), the AsyncAPI 3 document of the events (` + "`" + eventsPageCommand + "`" + `). A test compares the
document with the types that the broker declares, and others compare it with events that were sent.
`

// The page of events lists each message of the document. What stands before its list is written by
// hand.
func TestThePageHasTheEvents(t *testing.T) {
	const page = "../../docs/reference/events.md"
	raw, err := os.ReadFile(asyncAPI)
	if err != nil {
		t.Fatal(err)
	}
	var doc eventDocument
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	byHand, _, found := strings.Cut(string(have), eventsPageMark)
	if !found {
		t.Fatalf("%s has no line %q", page, eventsPageMark)
	}
	var want strings.Builder
	want.WriteString(byHand + eventsPageHead)
	messages := doc.Components.Messages.Content
	for i := 0; i < len(messages); i += 2 {
		var m struct{ Title, Summary, Description string }
		if err := messages[i+1].Decode(&m); err != nil {
			t.Fatal(err)
		}
		name := messages[i].Value
		if m.Title == "" || m.Summary == "" {
			t.Errorf("message %s has no title or no summary", name)
		}
		var s struct {
			Properties struct {
				Type    struct{ Enum []string }
				Subject struct{ Pattern string }
				Data    eventField
			}
		}
		doc.schema(t, name, &s)
		kind, _, is := strings.Cut(strings.TrimPrefix(s.Properties.Subject.Pattern, "^"), "/")
		if !is {
			t.Errorf("message %s has no kind of subject", name)
		}
		fmt.Fprintf(&want, "\n### %s\n\n", m.Title)
		for _, line := range byPrefix(s.Properties.Type.Enum) {
			fmt.Fprintf(&want, "- %s\n", line)
		}
		fmt.Fprintf(&want, "\n%s\n\nThe subject is `%s/…`. The data:\n\n| field | type | meaning |\n| --- | --- | --- |\n", strings.TrimSpace(m.Summary+" "+m.Description), kind)
		for _, row := range doc.rows(t, s.Properties.Data) {
			fmt.Fprintln(&want, row)
		}
	}
	manual.Hold(t, page, want.String(), *update, eventsPageCommand)
}

// byPrefix groups types by all but their last word: `site.silent`, `.heard`.
func byPrefix(types []string) []string {
	var prefixes []string
	words := map[string]string{}
	for _, typ := range types {
		cut := strings.LastIndex(typ, ".")
		if prefix := typ[:cut]; words[prefix] == "" {
			prefixes = append(prefixes, prefix)
			words[prefix] = "`" + typ + "`"
		} else {
			words[prefix] += ", `" + typ[cut:] + "`"
		}
	}
	for i, prefix := range prefixes {
		prefixes[i] = words[prefix]
	}
	return prefixes
}

// rows are the fields of an event's data as rows of a table.
func (doc *eventDocument) rows(t *testing.T, data eventField) (rows []string) {
	t.Helper()
	required := data.Required
	for data.Ref != "" || len(data.AllOf) > 0 {
		if data.Ref == "" {
			data = data.AllOf[0]
		}
		name := strings.TrimPrefix(data.Ref, "#/components/schemas/")
		data = eventField{}
		doc.schema(t, name, &data)
		required = append(required, data.Required...)
	}
	for i := 0; i < len(data.Properties.Content); i += 2 {
		name := data.Properties.Content[i].Value
		var f eventField
		if err := data.Properties.Content[i+1].Decode(&f); err != nil {
			t.Fatal(err)
		}
		if f.Description == "" || strings.Contains(f.Description, "|") {
			t.Errorf("the description of %s is empty or breaks the table: %q", name, f.Description)
		}
		kind := f.Type
		switch {
		case f.Format == "date-time":
			kind = "time"
		case len(f.Enum) > 0:
			kind = "`" + strings.Join(slices.DeleteFunc(f.Enum, func(v string) bool { return v == "" }), "`, `") + "`"
		}
		if !slices.Contains(required, name) {
			kind += ", optional"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", name, kind, f.Description))
	}
	return rows
}
