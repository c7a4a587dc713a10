package frame_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

var status = int32(7)

var every = []frame.Frame{
	frame.Hello{Version: 1, SessionID: "s-1", Token: "t", Taken: 3, From: 1, Sent: 9},
	frame.Welcome{Version: 1, Taken: 9, Limit: 300, Token: "next", Repeats: true},
	frame.Bye{Code: "node_drained", Text: "the node is drained", Status: &status},
	frame.Data{Offset: 7, Bytes: []byte("ls\r")},
	frame.Data{Offset: 0, Bytes: bytes.Repeat([]byte{0xff}, frame.MaxData)},
	frame.Ack{Taken: 7, Limit: 1 << 20},
	frame.EOF{Offset: 10},
	frame.Resize{Columns: 80, Rows: 24},
	frame.Signal{Name: "INT"},
	frame.Exit{Status: 130, Signal: "INT"},
	frame.Exit{},
	frame.Ping{Nonce: 1 << 63},
	frame.Pong{Nonce: 5},
	frame.State{Node: frame.NodeHere, Transport: frame.OverQUIC},
	frame.State{Node: frame.NodeHere, Transport: frame.OverTCP},
	frame.State{Node: frame.NodeAway},
}

func encoded(t testing.TB, frames ...frame.Frame) []byte {
	t.Helper()
	var raw []byte
	for _, f := range frames {
		var err error
		if raw, err = frame.Append(raw, f); err != nil {
			t.Fatal(err)
		}
	}
	return raw
}

func TestEveryFrameArrivesAsItWasSent(t *testing.T) {
	stream := frame.NewReader(iotest.OneByteReader(bytes.NewReader(encoded(t, every...))))
	for _, want := range every {
		got, err := stream.Next()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v (%v), want %+v", got, err, want)
		}
		if got, err = frame.Parse(encoded(t, want)); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("by itself: %+v (%v), want %+v", got, err, want)
		}
		if n := len(encoded(t, want)); n > frame.Largest {
			t.Errorf("%T has %d bytes, and %d are the most", want, n, frame.Largest)
		}
	}
	if _, err := stream.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestAStreamThatBreaksOffIsNotAnEnd(t *testing.T) {
	raw := encoded(t, frame.Data{Offset: 1, Bytes: []byte("half")})
	for n := 1; n < len(raw); n++ {
		if _, err := frame.NewReader(bytes.NewReader(raw[:n])).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// What a party that means ill, or one of another version, could send.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	json := func(kind byte, text string) []byte {
		return append([]byte{kind, 0, 0, 0, byte(len(text))}, text...)
	}
	for name, raw := range map[string][]byte{
		"no kind":                     {0, 0, 0, 0, 0},
		"a kind of tomorrow":          {99, 0, 0, 0, 1, 0},
		"a length that is a lie":      {10, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0},
		"a length beyond all bounds":  {4, 0xff, 0xff, 0xff, 0xff},
		"data of none":                {4, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0},
		"data beyond all offsets":     {4, 0, 0, 0, 9, 0xff, 0, 0, 0, 0, 0, 0, 0, 1},
		"an ack of more than allowed": {5, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1},
		"a limit beyond all offsets":  {5, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 2, 0xff, 0, 0, 0, 0, 0, 0, 1},
		"an end beyond all ends":      {6, 0, 0, 0, 8, 0xff, 0, 0, 0, 0, 0, 0, 1},
		"no columns":                  {7, 0, 0, 0, 4, 0, 0, 0, 24},
		"a terminal of a wall":        {7, 0, 0, 0, 4, 0xff, 0xff, 0, 24},
		"a resize of two":             {7, 0, 0, 0, 8, 0, 80, 0, 24, 0, 80, 0, 24},
		"a signal that is none":       json(8, "STOP; reboot"),
		"a signal that nobody may":    json(8, "SEGV"),
		"a status that is none":       {9, 0, 0, 0, 4, 0, 0, 1, 0},
		"a status below":              {9, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff},
		"an exit that writes":         {9, 0, 0, 0, 8, 0, 0, 0, 1, 0x1b, '[', '2', 'J'},
		"a hello with a key too many": json(1, `{"version":1,"session_id":"s","token":"t","taken":0,"from":0,"sent":0,"root":true}`),
		"a hello in two cases":        json(1, `{"version":1,"Version":2}`),
		"a hello with more behind":    json(1, `{"version":1}{}`),
		"a bye that is no text":       json(3, "{\"code\":\"\xff\"}"),
		"a welcome that is none":      json(2, `[]`),
		"a state that writes":         json(12, `{"node":"\u001b[2J","transport":"quic"}`),
		"a node that is nowhere":      json(12, `{"node":"","transport":""}`),
		"a node that came by itself":  json(12, `{"node":"here","transport":""}`),
		"a state with a key too many": json(12, `{"node":"away","transport":"","why":"x"}`),
	} {
		if f, err := frame.Parse(raw); taskcatalog.CodeOf(err, "") != frame.CodeInvalid {
			t.Errorf("%s is taken as %+v (%v)", name, f, err)
		}
		f, err := frame.NewReader(bytes.NewReader(raw)).Next()
		if err == nil || !errors.Is(err, io.ErrUnexpectedEOF) && taskcatalog.CodeOf(err, "") != frame.CodeInvalid {
			t.Errorf("%s is read as %+v (%v)", name, f, err)
		}
	}
}

// A length is judged before anything is read for it, or made room for.
func TestALengthThatIsTooMuchCostsNothing(t *testing.T) {
	endless := io.MultiReader(bytes.NewReader([]byte{4, 0x7f, 0xff, 0xff, 0xff}), iotest.ErrReader(errors.New("it was read on")))
	if _, err := frame.NewReader(endless).Next(); taskcatalog.CodeOf(err, "") != frame.CodeInvalid {
		t.Errorf("%v", err)
	}
}

func TestNobodySendsWhatTheOtherSideWouldRefuse(t *testing.T) {
	for _, f := range []frame.Frame{
		frame.Data{},
		frame.Data{Bytes: make([]byte, frame.MaxData+1)},
		frame.Resize{},
		frame.Signal{Name: "SEGV"},
		frame.Exit{Status: 256},
		frame.Bye{Text: strings.Repeat("x", 5000)},
		frame.Ack{Taken: 2, Limit: 1},
		frame.State{Node: "there"},
	} {
		before := []byte("before")
		if got, err := frame.Append(before, f); err == nil || string(got) != "before" {
			t.Errorf("%T: %q (%v)", f, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, e := range every {
		f.Add(encoded(f, e))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		alone, err := frame.Parse(raw)
		if code := taskcatalog.CodeOf(err, ""); err != nil && code != frame.CodeInvalid {
			t.Fatalf("code %q: %v", code, err)
		}
		stream := frame.NewReader(bytes.NewReader(raw))
		first, fromStream := stream.Next()
		if err != nil {
			return
		}
		if fromStream != nil || !reflect.DeepEqual(first, alone) {
			t.Fatalf("%+v alone, %+v (%v) from a stream", alone, first, fromStream)
		}
		again, err := frame.Append(nil, alone)
		if err != nil {
			t.Fatalf("%+v cannot be sent on: %v", alone, err)
		}
		if back, err := frame.Parse(again); err != nil || !reflect.DeepEqual(back, alone) {
			t.Fatalf("%+v became %+v (%v)", alone, back, err)
		}
	})
}
