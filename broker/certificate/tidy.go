package certificate

import (
	"reflect"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

// tidy brings everything that v points to into canonical form: text clean and bounded, times in
// UTC with microseconds, no nil list. Content signed by a node stays unchanged.
func tidy(v any) { tidyValue(reflect.ValueOf(v)) }

var (
	timeType  = reflect.TypeFor[time.Time]()
	proofType = reflect.TypeFor[Proof]()
)

func tidyValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			tidyValue(v.Elem())
		}
	case reflect.Struct:
		switch v.Type() {
		case proofType:
		case timeType:
			v.Set(reflect.ValueOf(v.Interface().(time.Time).UTC().Truncate(time.Microsecond)))
		default:
			for i := range v.NumField() {
				tidyValue(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			tidyValue(v.Index(i))
		}
	case reflect.String:
		v.SetString(taskcatalog.Clean(v.String(), taskcatalog.MaxText))
	}
}

func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
