package sqlkit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store/sqlkit"
)

func TestATimeIsStoredInMicrosecondsAndReadInUTC(t *testing.T) {
	for _, want := range []time.Time{{}, time.Date(2026, 7, 1, 12, 0, 0, 123456000, time.UTC)} {
		got := time.Unix(1, 0)
		if err := sqlkit.ScanMicros(&got).Scan(sqlkit.Micros(want.Local())); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	if err := sqlkit.ScanMicros(new(time.Time)).Scan("2026"); err == nil {
		t.Error("a text was read as a time")
	}
}

// The two drivers return texts as different types.
func TestJSONIsReadFromTextAndBytes(t *testing.T) {
	stored := sqlkit.JSON(map[string]int{"a": 1})
	for _, v := range []any{stored, []byte(stored)} {
		got, raw := map[string]int{}, json.RawMessage("old")
		if err := sqlkit.ScanJSON(&got).Scan(v); err != nil || got["a"] != 1 {
			t.Errorf("%T: %v, %v", v, got, err)
		}
		if err := sqlkit.ScanRawJSON(&raw).Scan(v); err != nil || string(raw) != stored {
			t.Errorf("%T: %s, %v", v, raw, err)
		}
	}
}

func TestAnEmptyColumnHasNoJSON(t *testing.T) {
	for _, v := range []any{"", []byte{}} {
		got, raw := "as it was", json.RawMessage("old")
		if err := sqlkit.ScanJSON(&got).Scan(v); err != nil || got != "as it was" {
			t.Errorf("%T: %q, %v", v, got, err)
		}
		if err := sqlkit.ScanRawJSON(&raw).Scan(v); err != nil || raw != nil {
			t.Errorf("%T: %q, %v", v, raw, err)
		}
	}
	if sqlkit.ScanJSON(new(string)).Scan(7) == nil || sqlkit.ScanRawJSON(new(json.RawMessage)).Scan(7) == nil {
		t.Error("a number was read as JSON")
	}
}
