package sqlkit

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// Micros is the stored form of a time: whole microseconds since 1970, 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// ScanMicros scans a column written by Micros.
func ScanMicros(t *time.Time) sql.Scanner { return (*timeColumn)(t) }

type timeColumn time.Time

func (c *timeColumn) Scan(v any) error {
	us, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a time is stored as %T", v)
	}
	*c = timeColumn{}
	if us != 0 {
		*c = timeColumn(time.UnixMicro(us).UTC())
	}
	return nil
}

// JSON is the stored form of v.
func JSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("sqlkit: %T has no JSON form: %v", v, err)) // plain maps, lists and structs only
	}
	return string(raw)
}

// ScanJSON scans JSON into the value that v points to; an empty column leaves the value unchanged.
func ScanJSON(v any) sql.Scanner { return &jsonColumn{v} }

type jsonColumn struct{ into any }

func (c *jsonColumn) Scan(v any) error {
	var raw []byte
	switch v := v.(type) {
	case string:
		raw = []byte(v)
	case []byte:
		raw = v
	default:
		return fmt.Errorf("JSON is stored as %T", v)
	}
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, c.into)
}

// ScanRawJSON scans JSON unchanged; nil for an empty column.
func ScanRawJSON(v *json.RawMessage) sql.Scanner { return (*rawColumn)(v) }

type rawColumn json.RawMessage

func (c *rawColumn) Scan(v any) error {
	*c = nil
	switch v := v.(type) {
	case string:
		if v != "" {
			*c = rawColumn(v)
		}
	case []byte:
		if len(v) > 0 {
			*c = append(rawColumn(nil), v...)
		}
	default:
		return fmt.Errorf("JSON is stored as %T", v)
	}
	return nil
}
