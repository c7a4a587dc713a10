package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

// Header is the first line of an asciicast v2 file.
type Header struct {
	Width     int               `json:"width"`
	Height    int               `json:"height"`
	Timestamp int64             `json:"timestamp"` // seconds since 1970
	Title     string            `json:"title,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
}

// EventKind is the code of an event.
type EventKind string

// The asciicast v2 events of a recording.
const (
	Output EventKind = "o"
	Input  EventKind = "i"
	Resize EventKind = "r" // COLUMNSxROWS
	Marker EventKind = "m"
)

// Event is a line of the file after the first.
type Event struct {
	After time.Duration // since the recording began
	Kind  EventKind
	Text  string
}

// maxLine bounds a line in bytes: a frame of frame.MaxData bytes, each byte escaped.
const maxLine = 128 << 10

// maxSide bounds a terminal's columns and rows.
const maxSide = 4096

func invalid(format string, args ...any) error {
	return broker.Errorf(broker.Invalid, "asciicast_invalid", "not a line of asciicast v2: "+format, args...)
}

// line returns the encoded header.
func (h Header) line() []byte {
	type v2 struct {
		Version int `json:"version"`
		Header
	}
	return encode(v2{2, h})
}

// appendEvent appends an encoded event: the time in seconds with six decimals. Invalid UTF-8 in the
// text becomes U+FFFD.
func appendEvent[T []byte | string](to []byte, after time.Duration, k EventKind, text T) []byte {
	to = strconv.AppendFloat(append(to, '['), after.Seconds(), 'f', 6, 64)
	to = append(append(append(to, `,"`...), k...), `",`...)
	to, _ = jsontext.AppendQuote(to, text) // the only error is invalid UTF-8
	return append(to, ']', '\n')
}

func encode(v any) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("text and numbers that JSON does not have: %v", err))
	}
	return out.Bytes()
}

// ParseHeader reads the first line of a file. Unknown keys are ignored, as the format demands.
// Codes: asciicast_invalid.
func ParseHeader(line []byte) (Header, error) {
	var h struct {
		Version int `json:"version"`
		Header
	}
	if err := whole(line, &h); err != nil {
		return Header{}, err
	}
	if h.Version != 2 || h.Width < 1 || h.Width > maxSide || h.Height < 1 || h.Height > maxSide {
		return Header{}, invalid("version %d, %d by %d", h.Version, h.Width, h.Height)
	}
	return h.Header, nil
}

// ParseEvent reads any line after the first. Codes: asciicast_invalid.
func ParseEvent(line []byte) (Event, error) {
	var parts []json.RawMessage
	if err := whole(line, &parts); err != nil {
		return Event{}, err
	}
	if len(parts) != 3 {
		return Event{}, invalid("%d parts", len(parts))
	}
	var e Event
	seconds, err := strconv.ParseFloat(string(parts[0]), 64)
	if err != nil || !(seconds >= 0 && seconds < math.MaxInt64/1e9) {
		return Event{}, invalid("the time is %s", taskcatalog.Clean(string(parts[0]), 32))
	}
	e.After = time.Duration(math.Round(seconds*1e6)) * time.Microsecond
	if json.Unmarshal(parts[1], &e.Kind) != nil || json.Unmarshal(parts[2], &e.Text) != nil || bytes.Equal(parts[2], []byte("null")) {
		return Event{}, invalid("the code or the data is not text")
	}
	switch e.Kind {
	case Output, Input, Marker:
	case Resize:
		if _, _, err := e.Size(); err != nil {
			return Event{}, err
		}
	default:
		return Event{}, invalid("code %q", taskcatalog.Clean(string(e.Kind), 16))
	}
	return e, nil
}

// Size returns the size in a Resize event. Codes: asciicast_invalid.
func (e Event) Size() (columns, rows int, err error) {
	if n, err := fmt.Sscanf(e.Text, "%dx%d", &columns, &rows); n != 2 || err != nil || e.Text != fmt.Sprintf("%dx%d", columns, rows) ||
		columns < 1 || columns > maxSide || rows < 1 || rows > maxSide {
		return 0, 0, invalid("size %q", taskcatalog.Clean(e.Text, 32))
	}
	return columns, rows, nil
}

// whole decodes a line with exactly one value.
func whole(line []byte, into any) error {
	if len(line) > maxLine {
		return invalid("%d bytes", len(line))
	}
	if !utf8.Valid(line) {
		return invalid("bytes that are not UTF-8")
	}
	if err := json.Unmarshal(line, into); err != nil {
		return invalid("%v", err)
	}
	return nil
}
