package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func TestWhatIsRememberedIsToldWithoutWhatWasInIt(t *testing.T) {
	l := open(t, t.TempDir())
	for i := range 3 {
		k := task(fmt.Sprintf("t-%d", i))
		k.Params = []byte(`{"ssh_keys":["hidden"]}`)
		do(t, l.Accept(k, "sha256:a", 1, noon.Add(time.Duration(i)*time.Minute)))
	}
	do(t, l.Start("t-2", noon), l.Finish("t-2", wire.ResultRequest{
		Outcome: taskcatalog.OutcomeFailed, Code: "no_luck", Message: "hidden", Result: []byte(`{"a":"hidden"}`), Evidence: "hidden", Archive: []byte("hidden"),
	}, false, noon))
	got, more, err := l.LatestTasks(2)
	if err != nil || more != 1 || len(got) != 2 || got[0].TaskID != "t-2" || got[0].State != "finished" || got[0].Code != "no_luck" || got[0].Reported || got[1].TaskID != "t-1" || got[1].State != "accepted" {
		t.Fatalf("%+v, %d more, %v", got, more, err)
	}
	raw, err := taskcatalog.Encode(got)
	if err != nil || strings.Contains(string(raw), "hidden") {
		t.Errorf("%s, %v", raw, err)
	}
	e, _, err := l.Get("t-2")
	if err != nil || string(e.Result.Archive) != "hidden" {
		t.Errorf("the entry lost its archive by being looked at: %+v, %v", e.Result, err)
	}
}

func TestAnArchiveTakesNoSpaceOnceItIsReported(t *testing.T) {
	l := open(t, t.TempDir())
	do(t, l.Accept(task("t-1"), "sha256:a", 1, noon), l.Start("t-1", noon),
		l.Finish("t-1", wire.ResultRequest{Outcome: taskcatalog.OutcomeSucceeded, Result: []byte(`{}`), Evidence: "e", Archive: make([]byte, taskcatalog.MaxArchive)}, false, noon), l.Reported("t-1"))
	e, _, err := l.Get("t-1")
	if err != nil || e.Result.Archive != nil || !e.ResultDropped() {
		t.Errorf("%d bytes stay, %v", len(e.Result.Archive), err)
	}
}
