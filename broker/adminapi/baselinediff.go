package adminapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hostler/hostler/broker/adminapi/resource"
	"github.com/hostler/hostler/taskcatalog"
)

// diffBaselines compares two baselines field by field. Every list of the type
// is compared by what names its items, so that a field added to the type is in
// the comparison without a word here.
func diffBaselines(was, is *taskcatalog.Baseline) []resource.BaselineLine {
	lines := []resource.BaselineLine{}
	compare := func(kind string, before, after map[string]string) {
		for what, text := range before {
			if now, ok := after[what]; !ok {
				lines = append(lines, resource.BaselineLine{Op: "removed", Kind: kind, What: what, Before: text})
			} else if now != text {
				lines = append(lines, resource.BaselineLine{Op: "changed", Kind: kind, What: what, Before: text, After: now})
			}
		}
		for what, text := range after {
			if _, ok := before[what]; !ok {
				lines = append(lines, resource.BaselineLine{Op: "added", Kind: kind, What: what, After: text})
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
	slices.SortFunc(lines, func(a, b resource.BaselineLine) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.What, b.What))
	})
	return lines
}

// items maps what names an item to the rest of it.
func items(list reflect.Value) map[string]string {
	out := map[string]string{}
	for i := range list.Len() {
		switch v := list.Index(i).Interface().(type) {
		case string:
			out[v] = ""
		case taskcatalog.BaselineUser:
			out[v.Name] = fmt.Sprintf("uid %d, gid %d, home %s, shell %s, login %s", v.UID, v.GID, v.Home, v.Shell, v.Login)
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

func one(s reflect.Value) map[string]string {
	if s.String() == "" {
		return nil
	}
	return map[string]string{"digest": s.String()}
}
