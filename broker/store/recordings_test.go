package store_test

import (
	"database/sql"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// record makes a complete recording of some lines.
func record(t testing.TB, db *store.DB, id string, lines int) recording.Head {
	t.Helper()
	r := must(recording.Begin(ctx, db.RecordingKeeper("relay:1"), id, recording.Header{Width: 80, Height: 24}, db.Now))(t)
	for i := range lines {
		r.Output(db.Now(), fmt.Appendf(nil, "line %d\r\n", i))
		must(r.Flush(ctx))(t)
	}
	return must(r.End(ctx, "over"))(t)
}

func TestARecordingIsKeptAndRead(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "alpha")
		newTerminal(t, db, "ts-1", n)
		head := record(t, db, "ts-1", 40)
		if r, told, err := db.VerifyRecording(ctx, "ts-1"); err != nil || told != nil || !r.Intact || r.Complete {
			t.Errorf("%+v; the audit log was told of %+v (%v)", r, told, err)
		}
		wrong := head
		wrong.Bytes++
		refused(t, db.CloseRecording(ctx, admin, "relay:1", wrong), "recording_head_wrong")
		ok(t, db.CloseRecording(ctx, admin, "relay:1", head))
		ok(t, db.CloseRecording(ctx, admin, "relay:1", head))
		if audited(t, db, "recording.end", "") != 1 {
			t.Error("its end is told more than once")
		}
		report, told, err := db.VerifyRecording(ctx, "ts-1")
		if err != nil || !report.Complete || report.Blocks != 42 || told == nil || *told != head {
			t.Errorf("%+v of %+v (%v)", report, told, err)
		}
		_, _, err = db.VerifyRecording(ctx, "ts-2")
		refused(t, err, "terminal_session_not_found")
		read := 0
		for range db.Blocks(ctx, "ts-1") {
			if read++; read == 3 {
				break
			}
		}
		if last := must(db.LastBlock(ctx, "ts-1"))(t); read != 3 || last.Seq != 41 || !last.Last {
			t.Errorf("%d read; the last is %+v", read, last)
		}
	})
}

func TestABlockThatIsNotTheNextIsRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "alpha")
		refused(t, db.RecordingKeeper("relay:1").Keep(ctx, recording.Block{SessionID: "ts-1", Hash: "a"}), "terminal_session_not_found")
		newTerminal(t, db, "ts-1", n)
		first := recording.Block{SessionID: "ts-1", At: db.Now(), Lines: []byte("{}\n"), Hash: "a"}
		ok(t, db.RecordingKeeper("relay:1").Keep(ctx, first))
		ok(t, db.RecordingKeeper("relay:1").Keep(ctx, first))
		for name, b := range map[string]recording.Block{
			"another in its place":       {SessionID: "ts-1", Hash: "b"},
			"one too far":                {SessionID: "ts-1", Seq: 2, Prev: "a", Hash: "b"},
			"one that follows on others": {SessionID: "ts-1", Seq: 1, Prev: "x", Hash: "b"},
		} {
			if err := db.RecordingKeeper("relay:1").Keep(ctx, b); broker.AsError(err).Code != "recording_conflict" {
				t.Errorf("%s: %v", name, err)
			}
		}
		ok(t, db.RecordingKeeper("relay:1").Keep(ctx, recording.Block{SessionID: "ts-1", Seq: 1, Prev: "a", Hash: "b", Last: true, Lines: []byte{}}))
		refused(t, db.RecordingKeeper("relay:1").Keep(ctx, recording.Block{SessionID: "ts-1", Seq: 2, Prev: "b", Hash: "c"}), "recording_conflict")
	})
}

// If several writers continue a recording at the same moment, only one succeeds.
func TestOneOfTwoWritersGoesOn(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
		var group sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			group.Go(func() {
				errs[i] = db.RecordingKeeper("relay:1").Keep(ctx, recording.Block{SessionID: "ts-1", Hash: fmt.Sprint(i), Lines: []byte{}})
			})
		}
		group.Wait()
		kept := 0
		for _, err := range errs {
			if err == nil {
				kept++
			} else {
				refused(t, err, "recording_conflict")
			}
		}
		if kept != 1 {
			t.Errorf("%d went on", kept)
		}
	})
}

func TestRecordingsAreListedAPageAtATime(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		alpha, beta := newMember(t, db, "alpha"), newMember(t, db, "beta")
		begin := clock.Now()
		for i := range 5 {
			n := alpha
			if i == 4 {
				n = beta
			}
			newTerminal(t, db, fmt.Sprintf("ts-%d", i), n)
			if i != 1 {
				clock.Advance(time.Minute) // two are made at the same moment
			}
		}
		record(t, db, "ts-4", 2)
		list := func(f store.RecordingFilter) (ids string) {
			t.Helper()
			for _, r := range must(db.Recordings(ctx, f))(t) {
				ids += r.ID + " "
			}
			return ids
		}
		for want, f := range map[string]store.RecordingFilter{
			"ts-4 ts-3 ts-2 ts-1 ts-0 ": {},
			"ts-4 ts-3 ts-2 ":           {Limit: 3},
			"ts-1 ts-0 ":                {After: "ts-2"},
			"ts-4 ":                     {NodeID: beta.ID},
			"ts-3 ":                     {NodeID: alpha.ID, From: begin.Add(2 * time.Minute)},
			"ts-0 ":                     {To: begin.Add(time.Minute)},
			"":                          {OpenedBy: "somebody"},
		} {
			if got := list(f); got != want {
				t.Errorf("%+v: %q, want %q", f, got, want)
			}
		}
		if got := list(store.RecordingFilter{Sites: []string{"elsewhere"}}); got != "" {
			t.Errorf("of another site: %q", got)
		}
		page := must(db.Recordings(ctx, store.RecordingFilter{Limit: 2, OpenedBy: "ada"}))(t)
		if page[0].Blocks != 4 || page[0].Bytes != 16 || page[1].Blocks != 0 || page[0].Username != "tenant" {
			t.Errorf("%+v", page)
		}
	})
}

func TestOldRecordingsAreDropped(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "alpha")
		for _, id := range []string{"ts-old", "ts-live", "ts-new", "ts-cut"} {
			newTerminal(t, db, id, n)
			if head := record(t, db, id, 1); id != "ts-cut" { // its end was never logged
				ok(t, db.CloseRecording(ctx, admin, "relay:1", head))
			}
		}
		for _, id := range []string{"ts-old", "ts-cut"} {
			must(db.MoveTerminalSession(ctx, admin, id, store.TerminalMove{To: broker.TerminalClosed}))(t)
		}
		clock.Advance(24 * time.Hour)
		must(db.MoveTerminalSession(ctx, admin, "ts-new", store.TerminalMove{To: broker.TerminalClosed}))(t)
		before := map[string]time.Time{n.Site: clock.Now().Add(-time.Hour)}
		for _, none := range []map[string]time.Time{nil, {"elsewhere": clock.Now()}} {
			if got := must(db.DropRecordings(ctx, admin, none))(t); len(got) != 0 {
				t.Errorf("%v was dropped, of a site that keeps its own", got)
			}
		}
		if got := must(db.DropRecordings(ctx, admin, before))(t); len(got) != 1 || got[0] != "ts-old" {
			t.Errorf("%v was dropped", got)
		}
		if got := must(db.DropRecordings(ctx, admin, before))(t); len(got) != 0 || audited(t, db, "recording.drop", "") != 1 {
			t.Errorf("%v was dropped again", got)
		}
		for id, want := range map[string]int64{"ts-old": -1, "ts-live": 2, "ts-new": 2, "ts-cut": 2} {
			if last := must(db.LastBlock(ctx, id))(t); last.Seq != want {
				t.Errorf("%s ends with block %d, want %d", id, last.Seq, want)
			}
		}
		for _, r := range must(db.Recordings(ctx, store.RecordingFilter{}))(t) {
			if dropped := !r.DroppedAt.IsZero(); dropped != (r.ID == "ts-old") || r.RecordedAt.IsZero() != (r.ID == "ts-cut") {
				t.Errorf("%+v", r)
			}
		}
		r, told, err := db.VerifyRecording(ctx, "ts-old")
		if err != nil || told == nil || told.Blocks != 3 || r.Complete || !r.Intact || !r.DroppedAt.Equal(clock.Now()) || !strings.Contains(r.What, "the recording was deleted at") {
			t.Errorf("%+v of %+v (%v)", r, told, err)
		}
	})
}

// A changed session row does not make deleted blocks count as dropped.
func TestWhatIsDeletedIsNotDropped(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, storetest.NewClock().Now)
	newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
	ok(t, db.CloseRecording(ctx, admin, "relay:1", record(t, db, "ts-1", 1)))
	raw := must(sql.Open("pgx", url))(t)
	t.Cleanup(func() { _ = raw.Close() })
	for _, q := range []string{`DELETE FROM recording_blocks`, `UPDATE terminal_sessions SET dropped_at = 1`} {
		must(raw.ExecContext(ctx, q))(t)
	}
	if r, _, err := db.VerifyRecording(ctx, "ts-1"); err != nil || r.Intact || r.What != "the recording has no block" {
		t.Errorf("%+v (%v)", r, err)
	}
}

// The tail of a recording without an end cannot be cut off unnoticed: each move of its session
// writes the recording's head into the audit log.
func TestATailThatIsCutOffIsFound(t *testing.T) {
	url := storetest.URL(t, "postgres")
	db := storetest.Reopen(t, url, storetest.NewClock().Now)
	newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
	r := must(recording.Begin(ctx, db.RecordingKeeper("relay:1"), "ts-1", recording.Header{Width: 80, Height: 24}, db.Now))(t)
	r.Output(db.Now(), []byte("rm -rf\r\n"))
	must(r.Flush(ctx))(t)
	must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalDetached}))(t)
	if r, _, err := db.VerifyRecording(ctx, "ts-1"); err != nil || !r.Intact || r.Blocks != 2 {
		t.Errorf("%+v (%v)", r, err)
	}
	raw := must(sql.Open("pgx", url))(t)
	t.Cleanup(func() { _ = raw.Close() })
	must(raw.ExecContext(ctx, `DELETE FROM recording_blocks WHERE seq = 1`))(t)
	if r, _, err := db.VerifyRecording(ctx, "ts-1"); err != nil || r.Intact || r.Complete || r.Blocks != 1 {
		t.Errorf("%+v (%v)", r, err)
	}
}

// The cost of keeping a block does not depend on the block before.
func TestABlockCostsNothingForTheOneBefore(t *testing.T) {
	db := storetest.Open(t, "sqlite", storetest.NewClock().Now)
	newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
	keep := db.RecordingKeeper("relay:1")
	const much = 8 << 20
	ok(t, keep.Keep(ctx, recording.Block{SessionID: "ts-1", At: db.Now(), Lines: make([]byte, much), Hash: "a"}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ok(t, keep.Keep(ctx, recording.Block{SessionID: "ts-1", Seq: 1, At: db.Now(), Lines: []byte("[]\n"), Prev: "a", Hash: "b"}))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > much/2 {
		t.Errorf("it took %d bytes of memory", took)
	}
}
