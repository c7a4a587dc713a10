package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// The packing of a release uses the program's own description.
func TestTheProgramSaysWhatItIs(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run(context.Background(), []string{"version", "-o", "json"}, &out, &errs); status != exitDone {
		t.Fatalf("status %d, %s", status, errs.String())
	}
	var self release.Self
	if err := taskcatalog.DecodeStrict(out.Bytes(), &self); err != nil {
		t.Fatal(err)
	}
	if self.Version != version || self.Commit != commit || self.StateSchema != release.State || self.Protocol != release.Protocol {
		t.Errorf("it says %+v", self)
	}
	for _, word := range []string{"version", "--version"} {
		out.Reset()
		if status := run(context.Background(), []string{word}, &out, &errs); status != exitDone || out.String() != "hostler-agent "+version+" ("+commit+")\n" {
			t.Errorf("%s says %q (%d)", word, out.String(), status)
		}
	}
}
