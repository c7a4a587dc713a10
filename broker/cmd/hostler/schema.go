package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker"
)

// schema is the part of a JSON Schema needed to read key=value params and to describe a type. The
// broker makes the final check.
type schema struct {
	Type       string             `json:"type"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	Enum       []any              `json:"enum"`
	Pattern    string             `json:"pattern"`
	Minimum    *json.Number       `json:"minimum"`
	Maximum    *json.Number       `json:"maximum"`
	MinItems   *int               `json:"minItems"`
	MaxItems   *int               `json:"maxItems"`
	MaxLength  *int               `json:"maxLength"`
	Format     string             `json:"format"`
}

func parseSchema(raw json.RawMessage) (*schema, error) {
	s := &schema{}
	if len(raw) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, broker.Errorf(broker.Internal, "answer_malformed",
			"cannot read the type's schema: it is not what this version of hostler expects (compare hostler version with hostler status)")
	}
	return s, nil
}

// names lists the properties, the required ones first.
func (s *schema) names() []string {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if ra, rb := slices.Contains(s.Required, a), slices.Contains(s.Required, b); ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}

// table has a row for each property that is not in leaveOut.
func (s *schema) table(leaveOut []string) [][]string {
	rows := [][]string{}
	for _, name := range s.names() {
		if !slices.Contains(leaveOut, name) {
			prop := s.Properties[name]
			required := ""
			if slices.Contains(s.Required, name) {
				required = "yes"
			}
			rows = append(rows, []string{name, prop.kind(), required, prop.limits()})
		}
	}
	return rows
}

// kind is the type in words.
func (s *schema) kind() string {
	switch {
	case s.Type == "array" && s.Items != nil && s.Items.Type != "":
		return "list of " + s.Items.Type
	case s.Type == "array":
		return "list"
	case s.Format != "":
		return s.Format
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func (s *schema) limits() string {
	var parts []string
	if len(s.Enum) > 0 {
		values := []string{}
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		parts = append(parts, "one of "+strings.Join(values, ", "))
	}
	if s.Minimum != nil && s.Maximum != nil {
		parts = append(parts, fmt.Sprintf("%s to %s", *s.Minimum, *s.Maximum))
	} else if s.Minimum != nil {
		parts = append(parts, fmt.Sprintf("at least %s", *s.Minimum))
	} else if s.Maximum != nil {
		parts = append(parts, fmt.Sprintf("at most %s", *s.Maximum))
	}
	if s.MinItems != nil {
		parts = append(parts, fmt.Sprintf("at least %d", *s.MinItems))
	}
	if s.MaxItems != nil {
		parts = append(parts, fmt.Sprintf("at most %d", *s.MaxItems))
	}
	if s.MaxLength != nil {
		parts = append(parts, fmt.Sprintf("at most %d characters", *s.MaxLength))
	}
	if s.Pattern != "" {
		parts = append(parts, "matches "+s.Pattern)
	}
	return strings.Join(parts, "; ")
}
