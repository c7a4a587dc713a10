package recording_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
)

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`{"version":2,"width":80,"height":24,"timestamp":1504467315,"env":{"SHELL":"/bin/bash"}}`, `[0.1,"o","\u001b[31m$ "]`, `[1,"i","ls\r"]`,
		`[2.000001,"r","100x30"]`, `[3,"m","hostler: 5 bytes of output are lost"]`, `[1e-7,"o",""]`, `[null,"o","a"]`, `[`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if h, err := recording.ParseHeader(line); err == nil && (h.Width < 1 || h.Height < 1) || err != nil && broker.AsError(err).Code != "asciicast_invalid" {
			t.Fatalf("header %+v: %v", h, err)
		}
		e, err := recording.ParseEvent(line)
		switch {
		case err != nil && broker.AsError(err).Code != "asciicast_invalid":
			t.Fatal(err)
		case err != nil:
			return
		}
		if e.After < 0 || e.After > time.Duration(1<<62) && e.After%time.Microsecond != 0 {
			t.Fatalf("time %v", e.After)
		}
		if e.Kind == recording.Resize {
			if _, _, err := e.Size(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
