package taskqueue_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/broker/taskqueue"
	"github.com/hostler/hostler/pki"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/wire"
)

func naming(archive []byte) string {
	return fmt.Sprintf(`{"digest":%q,"bytes":%d,"parts":[]}`, pki.Digest(archive), len(archive))
}

// collected has a node report diagnostics with an archive, as changed by the test.
func (w *world) collected(n node, archive []byte, change func(*wire.ResultRequest)) (broker.Task, error) {
	w.t.Helper()
	k := w.enqueue(n, "node.diagnostics", `{}`)
	d := w.fetch(n)[0]
	result := naming(archive)
	req := w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeSucceeded, result), result)
	req.Archive = archive
	if change != nil {
		change(&req)
	}
	_, err := w.queue.Result(ctx, n.Peer, k.ID, req)
	return k, err
}

func TestAnArchiveIsKeptWithTheEndOfItsTask(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k, err := w.collected(n, []byte("what tells why"), nil)
		w.ok(err)
		a, err := w.db.Archive(ctx, k.ID)
		w.ok(err)
		if string(a.Data) != "what tells why" || a.Digest != pki.Digest(a.Data) || a.NodeID != n.Peer.NodeID || a.Bytes != 14 || a.EnqueuedBy != operator.Name {
			w.t.Errorf("%+v", a)
		}
		if got := string(w.task(k.ID).Result); strings.Contains(got, "what tells why") {
			w.t.Error("the task holds the archive: " + got)
		}
		_, err = w.db.Archive(ctx, w.enqueue(n, "node.heartbeat_check", "").ID)
		w.refused(err, "archive_not_found")
	})
}

func TestAnArchiveThatIsNotTheOneNamedEndsNothing(t *testing.T) {
	each(t, func(w *world) {
		for i, c := range []struct {
			name   string
			change func(*wire.ResultRequest)
		}{
			{"another one", func(r *wire.ResultRequest) { r.Archive = []byte("what tells whY") }},
			{"none", func(r *wire.ResultRequest) { r.Archive = nil }},
			{"one that is too large", func(r *wire.ResultRequest) { r.Archive = make([]byte, taskcatalog.MaxArchive+1) }},
		} {
			w.run(c.name, func(w *world) {
				k, err := w.collected(w.active(fmt.Sprint("n", i)), []byte("what tells why"), c.change)
				w.refused(err, "bad_archive")
				if got := w.task(k.ID).Status; got != broker.TaskDispatched {
					w.t.Errorf("the task is %s", got)
				}
				_, err = w.db.Archive(ctx, k.ID)
				w.refused(err, "archive_not_found")
			})
		}
		n := w.active("other")
		k := w.enqueue(n, "node.drain", "")
		d, result := w.fetch(n)[0], `{"drained":true,"sessions_ended":0,"processes_stopped":0}`
		req := w.answer(n, d, w.evidence(n, d, taskcatalog.OutcomeSucceeded, result), result)
		req.Archive = []byte("smuggled")
		_, err := w.queue.Result(ctx, n.Peer, k.ID, req)
		w.refused(err, "bad_archive")
	})
}

func TestTheFirstArchiveStands(t *testing.T) {
	each(t, func(w *world) {
		n := w.active("one")
		k, err := w.collected(n, []byte("first"), nil)
		w.ok(err)
		r, err := w.queue.Result(ctx, n.Peer, k.ID, wire.ResultRequest{Attempt: 1, Outcome: taskcatalog.OutcomeSucceeded, Archive: []byte("second")})
		w.ok(err)
		if a, err := w.db.Archive(ctx, k.ID); err != nil || string(a.Data) != "first" || !r.Repeat {
			w.t.Errorf("%s, %v, %+v", a.Data, err, r)
		}
	})
}

func TestArchivesGoWhenTheirTimeIsOverAndTheOldestOfTooMany(t *testing.T) {
	each(t, func(w *world) {
		n, other := w.active("one"), w.active("two")
		old, err := w.collected(other, []byte("of another node"), nil)
		w.ok(err)
		var all []string
		for i := range 22 {
			w.clock.Advance(time.Minute)
			k, err := w.collected(n, fmt.Append(nil, "archive ", i), nil)
			w.ok(err)
			all = append(all, k.ID)
		}
		kept, err := w.db.Archives(ctx, n.Peer.NodeID)
		w.ok(err)
		if len(kept) != 20 || kept[0].TaskID != all[21] || kept[19].TaskID != all[2] || kept[0].Data != nil {
			w.t.Fatalf("%d are kept: %+v", len(kept), kept)
		}
		w.clock.Advance(taskqueue.DefaultKeepArchives - 22*time.Minute)
		w.sweep()
		_, err = w.db.Archive(ctx, old.ID)
		w.ok(err)
		w.clock.Advance(time.Microsecond)
		w.sweep()
		_, err = w.db.Archive(ctx, old.ID)
		w.refused(err, "archive_not_found")
		if kept, err = w.db.Archives(ctx, n.Peer.NodeID); err != nil || len(kept) != 20 {
			w.t.Errorf("%d, %v", len(kept), err)
		}
		if got := w.task(old.ID).Status; got != broker.TaskSucceeded {
			w.t.Error("the task went with its archive: " + got)
		}
	})
}

func TestAnArchiveThatWasChangedIsNotGivenOut(t *testing.T) {
	clock, url := storetest.NewClock(), storetest.URL(t, "sqlite")
	w := newWorld(t, storetest.Reopen(t, url, clock.Now), clock)
	k, err := w.collected(w.active("one"), []byte("mine"), nil)
	w.ok(err)
	raw, err := sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
	w.ok(err)
	defer func() { _ = raw.Close() }()
	_, err = raw.ExecContext(ctx, `UPDATE task_archives SET data = $1`, []byte("evil"))
	w.ok(err)
	_, err = w.db.Archive(ctx, k.ID)
	w.refused(err, "archive_untrusted")
}
