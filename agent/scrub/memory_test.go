package scrub

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hostler/hostler/agent/gpu"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// says makes the helper print a line before its own answer to an overwrite: a library may have
// written to the helper's output.
func (l *lab) says(line string) {
	l.t.Helper()
	program := filepath.Join(l.t.TempDir(), "helper")
	text := fmt.Sprintf(`#!/bin/sh
read -r request
case $request in *'"ask":"scrub"'*) echo '%s';; esac
{ echo "$request"; cat; } | %s gpu helper
`, line, helperPath)
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		l.t.Fatal(err)
	}
	l.Helper.Path = program
}

func TestProgressOfNothingDoesNotEndTheAgent(t *testing.T) {
	t.Parallel()
	l := newLab(t, "nvidia")
	l.says(`{"progress":{"phase":"take","done_bytes":0,"total_bytes":0}}`)
	res := l.good()
	for i := range gpuCount {
		if g := l.of(res, i); g.Verdict != taskcatalog.VerdictInconclusive || g.Code != gpu.CodeHelperGarbage {
			t.Errorf("GPU %d is %s %s (%s)", i, g.Verdict, g.Code, g.Message)
		}
	}
	// A valid line that adds nothing changes nothing.
	l = newLab(t, "nvidia")
	l.says(`{"progress":{"phase":"take","done_bytes":0,"total_bytes":1048576}}`)
	if res := l.good(); res.Verdict != taskcatalog.VerdictClean {
		t.Errorf("%s: %+v", res.Verdict, res.GPUs)
	}
	s := &Scrub{}
	s.follow(profiles.StepOverwrite, []*unit{{}})(0, gpu.Progress{Phase: gpu.PhaseTake})
}

func TestAPanicIsTheEndOfItsUnitAlone(t *testing.T) {
	t.Parallel()
	units := []*unit{{}, {}}
	units[0].out.Verdict, units[1].out.Verdict = taskcatalog.VerdictClean, taskcatalog.VerdictClean
	sideBySide(units, func(i int, _ *unit) {
		if i == 0 {
			panic("unexpected")
		}
	})
	if u := units[0]; !u.done || u.out.Verdict != taskcatalog.VerdictInconclusive || u.out.Code != taskcatalog.CodeHandlerPanicked {
		t.Errorf("%+v", u.out)
	}
	if u := units[1]; u.done || u.out.Verdict != taskcatalog.VerdictClean {
		t.Errorf("%+v", u.out)
	}
}
