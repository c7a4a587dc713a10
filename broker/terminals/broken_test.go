package terminals_test

import (
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
)

// A session ends even if its recording was changed. The audit log then says that the recording has
// no end.
func TestASessionWithABrokenRecordingIsOver(t *testing.T) {
	each(t, func(w *world) {
		a, _ := w.replica("a.example:7442"), w.replica("b.example:7442")
		id := a.open()
		a.stop()
		a.relay.Stop()
		w.ok(a.service.Leave(ctx))
		last, err := w.db.LastBlock(ctx, id)
		w.ok(err)
		w.ok(w.db.RecordingKeeper("a.example:7442").Keep(ctx, recording.Block{SessionID: id, Seq: last.Seq + 1, At: w.clock.Now(), Lines: []byte("x"), Prev: last.Hash, Hash: "sha256:other"}))
		w.clock.Advance(3 * time.Minute)
		w.eventually("it is over", func() bool { return w.row(id).Status == broker.TerminalClosed })
		if n, err := w.db.ListAudit(ctx, store.AuditFilter{Action: "recording.broken", Subject: "terminal/" + id, Limit: 9}); err != nil || len(n) != 1 {
			t.Errorf("%+v %v", n, err)
		}
		if r, told, err := w.db.VerifyRecording(ctx, id); err != nil || r.Intact || told != nil {
			t.Errorf("%+v %+v %v", r, told, err)
		}
		w.eventually("the node is told", func() bool { return len(w.tasks("terminal.close")) == 1 })
	})
}
