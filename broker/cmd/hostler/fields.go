package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/api/client"
)

// fields are the flags of a command that fill a document. Only flags given on the command line get
// into the document.
type fields struct {
	c    *cobra.Command
	take []func(client.Document) error
}

func fieldsOf(c *cobra.Command) *fields { return &fields{c: c} }

// on runs f for the document if the flag was given.
func (f *fields) on(flag string, fill func(client.Document) error) {
	f.take = append(f.take, func(d client.Document) error {
		if !f.c.Flags().Changed(flag) {
			return nil
		}
		return fill(d)
	})
}

func (f *fields) put(flag, field string, value func() any) {
	f.on(flag, func(d client.Document) error { d[field] = value(); return nil })
}

func (f *fields) text(flag, field, usage string) {
	v := f.c.Flags().String(flag, "", usage)
	f.put(flag, field, func() any { return *v })
}

func (f *fields) number(flag, field, usage string) {
	v := f.c.Flags().Int(flag, 0, usage)
	f.put(flag, field, func() any { return *v })
}

func (f *fields) list(flag, field, usage string) {
	v := f.c.Flags().StringArray(flag, nil, usage+" (may be repeated)")
	f.put(flag, field, func() any {
		return slices.DeleteFunc(slices.Clone(*v), func(s string) bool { return s == "" }) // an empty string empties the list
	})
}

// numbers is list for whole numbers.
func (f *fields) numbers(flag, field, help string) {
	v := f.c.Flags().StringArray(flag, nil, help+" (may be repeated)")
	f.on(flag, func(d client.Document) error {
		all := []int{}
		for _, text := range *v {
			if text == "" { // empties the list
				continue
			}
			n, err := strconv.Atoi(text)
			if err != nil {
				return usage("--%s takes a whole number, or nothing to empty the list", flag)
			}
			all = append(all, n)
		}
		d[field] = all
		return nil
	})
}

func (f *fields) reason() { f.text("reason", "reason", "reason, for the audit log") }

// document holds the given flags.
func (f *fields) document() (client.Document, error) {
	d := client.Document{}
	for _, take := range f.take {
		if err := take(d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// change is the document of a command that must change something.
func (f *fields) change() (client.Document, error) {
	d, err := f.document()
	if _, why := d["reason"]; err == nil && (len(d) == 0 || len(d) == 1 && why) {
		return nil, usage("nothing to change is given (see hostler help%s)", strings.TrimPrefix(f.c.CommandPath(), "hostler"))
	}
	return d, err
}

// knob is a field of a struct of the API that --set can set.
type knob struct {
	name, doc string
	typ       reflect.Type
	optional  bool // may be omitted, which differs from false or 0
}

// knobsOf lists the fields of T in their order, with the fields of embedded structs.
func knobsOf[T any]() []knob {
	var out []knob
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		typ := f.Type
		optional := typ.Kind() == reflect.Pointer
		if optional {
			typ = typ.Elem()
		}
		out = append(out, knob{name, f.Tag.Get("doc"), typ, optional})
	}
	return out
}

// knobHelp is one line per knob.
func knobHelp(knobs []knob) string {
	var b strings.Builder
	for _, k := range knobs {
		name := k.name
		if k.typ.Kind() == reflect.Map {
			name += ".STAGE"
		}
		b.WriteString("\n  " + strings.TrimSpace(fmt.Sprintf("%-42s %s", name, k.doc)))
	}
	return b.String()
}

// setKnobs puts NAME=VALUE pairs into a document. NAME.KEY=VALUE sets one entry of a map, and NAME=
// clears a value that is a text, a list or optional.
func setKnobs(d client.Document, knobs []knob, pairs []string) error {
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		name, key, inside := strings.Cut(name, ".")
		i := slices.IndexFunc(knobs, func(k knob) bool { return k.name == name })
		if !ok || i < 0 || inside != (knobs[i].typ.Kind() == reflect.Map) {
			return usage("cannot read --set %q (it is written KNOB=VALUE; the help lists the knobs)", pair)
		}
		typ := knobs[i].typ
		if inside {
			typ = typ.Elem()
		}
		if value == "" && knobs[i].optional {
			d[name] = json.RawMessage("null")
			continue
		}
		v, err := knobValue(typ, value)
		if err != nil {
			return broker.Errorf(broker.Invalid, "bad_value", "cannot set %s: %v", name, err)
		}
		if !inside {
			d[name] = v
			continue
		}
		m, _ := d[name].(map[string]any)
		if m == nil {
			m = map[string]any{}
		}
		m[key] = v
		d[name] = m
	}
	return nil
}

func knobValue(t reflect.Type, value string) (any, error) {
	switch t.Kind() {
	case reflect.String:
		return value, nil
	case reflect.Bool:
		if value != "true" && value != "false" {
			return nil, usage("it is true or false")
		}
		return value == "true", nil
	case reflect.Slice: // a, b; empty: none
		return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }), nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return nil, usage("it is a whole number")
	}
	return n, nil
}
