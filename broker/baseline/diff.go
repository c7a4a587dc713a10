package baseline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// Line is one difference.
type Line struct {
	Op     string // added, removed or changed
	Kind   string // the baseline's field: users, units, files …
	What   string
	Before string
	After  string
}

// Diff compares two baselines field by field, except their time, and returns the differences sorted
// by kind and name. Lists are compared by the names of their items. A field added to
// taskcatalog.Baseline is compared without a change of Diff.
func Diff(was, is *taskcatalog.Baseline) []Line {
	lines := []Line{}
	compare := func(kind string, before, after map[string]string) {
		for what, text := range before {
			if now, ok := after[what]; !ok {
				lines = append(lines, Line{Op: "removed", Kind: kind, What: what, Before: text})
			} else if now != text {
				lines = append(lines, Line{Op: "changed", Kind: kind, What: what, Before: text, After: now})
			}
		}
		for what, text := range after {
			if _, ok := before[what]; !ok {
				lines = append(lines, Line{Op: "added", Kind: kind, What: what, After: text})
			}
		}
	}
	var walk func(prefix string, x, y reflect.Value)
	walk = func(prefix string, x, y reflect.Value) {
		for i := range x.NumField() {
			name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
			switch kind := prefix + name; x.Field(i).Kind() {
			case reflect.Slice:
				compare(kind, items(x.Field(i)), items(y.Field(i)))
			case reflect.String:
				compare(kind, one(x.Field(i)), one(y.Field(i)))
			case reflect.Struct:
				if kind != "taken_at" {
					walk(kind+".", x.Field(i), y.Field(i))
				}
			}
		}
	}
	walk("", reflect.ValueOf(*was), reflect.ValueOf(*is))
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.What, b.What))
	})
	return lines
}

// items maps the name of each item of a list to the rest of the item.
func items(list reflect.Value) map[string]string {
	out := map[string]string{}
	for i := range list.Len() {
		switch v := list.Index(i).Interface().(type) {
		case string:
			out[v] = ""
		case taskcatalog.BaselineUser:
			out[v.Name] = fmt.Sprintf("uid %d, gid %d, home %s, shell %s, login %s", v.UID, v.GID, v.Home, v.Shell, v.Login)
		case taskcatalog.BaselineGPU:
			gpuItems(out, v)
		case taskcatalog.PlatformRow:
			out[v.Check] = v.Absent
			for _, s := range v.Settings {
				out[v.Check+" "+s.Name] = s.Value
			}
		case taskcatalog.BaselineFile:
			out[v.Path] = strings.TrimSpace(fmt.Sprintf("%s mode %04o uid %d", v.Digest, v.Mode, v.UID))
		default:
			text, err := json.Marshal(v)
			if err != nil {
				text = []byte(err.Error())
			}
			out[string(text)] = ""
		}
	}
	return out
}

// gpuItems adds a GPU under its uuid, and each setting and instance of the GPU as a separate item.
// Two GPUs that report the same uuid are distinguished by their PCI address.
func gpuItems(out map[string]string, g taskcatalog.BaselineGPU) {
	name := g.UUID
	if _, taken := out[name]; taken {
		name += " " + g.PCIAddress
	}
	settings, instances := g.Settings, g.Instances
	g.Settings, g.Instances, g.UUID = taskcatalog.GPUSettings{}, nil, ""
	out[name] = strings.Join(members(g), ", ")
	for _, setting := range members(settings) {
		what, value, _ := strings.Cut(setting, " ")
		out[name+" "+what] = value
	}
	for _, uuid := range instances {
		out[name+" instance "+uuid] = ""
	}
}

// members returns the fields of a struct that hold a value, as "name value", sorted by name.
func members(v any) []string {
	raw, err := taskcatalog.Encode(v)
	var fields map[string]any
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].(type) {
		case map[string]any:
		case string:
			if value != "" {
				all = append(all, name+" "+value)
			}
		case float64:
			all = append(all, name+" "+strconv.FormatFloat(value, 'f', -1, 64))
		default:
			all = append(all, fmt.Sprint(name, " ", value))
		}
	}
	return all
}

func one(s reflect.Value) map[string]string {
	if s.String() == "" {
		return nil
	}
	return map[string]string{"digest": s.String()}
}
