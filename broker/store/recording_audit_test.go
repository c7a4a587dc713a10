package store_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// tables returns a store and a function that changes its tables directly, as an attacker could.
func tables(t *testing.T) (db *store.DB, raw func(query string)) {
	t.Helper()
	url := storetest.URL(t, "postgres")
	db = storetest.Reopen(t, url, storetest.NewClock().Now)
	pool := must(sql.Open("pgx", url))(t)
	t.Cleanup(func() { _ = pool.Close() })
	return db, func(query string) {
		t.Helper()
		must(pool.ExecContext(ctx, query))(t)
	}
}

// A session that ends while its recording is read does not change the verdict.
func TestARecordingIsVerifiedWhileItsSessionEnds(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "alpha")
		newTerminal(t, db, "ts-1", n)
		rec := must(recording.Begin(ctx, db.RecordingKeeper("relay:1"), "ts-1", recording.Header{Width: 80, Height: 24}, db.Now))(t)
		ends := func(yield func(recording.Block, error) bool) {
			ok(t, db.CloseRecording(ctx, admin, "relay:1", must(rec.End(ctx, "over"))(t)))
			must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalClosed}))(t)
			db.Blocks(ctx, "ts-1")(yield)
		}
		if r, told, err := store.VerifyBlocks(ctx, db, "ts-1", ends); err != nil || !r.Complete || told == nil {
			t.Errorf("one that ends: %+v of %+v (%v)", r, told, err)
		}
		clock.Advance(time.Hour)
		drops := func(yield func(recording.Block, error) bool) {
			must(db.DropRecordings(ctx, admin, map[string]time.Time{n.Site: clock.Now()}))(t)
			db.Blocks(ctx, "ts-1")(yield)
		}
		if r, _, err := store.VerifyBlocks(ctx, db, "ts-1", drops); err != nil || !r.Intact || r.DroppedAt.IsZero() {
			t.Errorf("one that is dropped: %+v (%v)", r, err)
		}
	})
}

// Every anchor of a recording counts, however many rows a session has.
func TestEachAnchorOfARecordingCounts(t *testing.T) {
	db, raw := tables(t)
	newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
	rec := must(recording.Begin(ctx, db.RecordingKeeper("relay:1"), "ts-1", recording.Header{Width: 80, Height: 24}, db.Now))(t)
	for range 3 {
		rec.Output(db.Now(), []byte("rm -rf\r\n"))
		must(rec.Flush(ctx))(t)
	}
	ok(t, db.AnchorRecording(ctx, admin, "relay:1", rec.Head()))
	refused(t, db.AnchorRecording(ctx, admin, "relay:2", rec.Head()), "terminal_session_elsewhere")
	first := must(db.LastBlock(ctx, "ts-1"))(t)
	raw(`INSERT INTO audit_logs (at, actor, action, subject, reason, before, after, correlation_id, code)
		SELECT 1, 'ada', 'recording.read', 'terminal/ts-1', '', '', '', '', '' FROM generate_series(1, 1200)`)
	raw(fmt.Sprintf(`INSERT INTO audit_logs (at, actor, action, subject, reason, before, after, correlation_id, code)
		SELECT 1, 'system', 'recording.anchor', 'terminal/ts-1', '', '', '{"recording":{"SessionID":"ts-1","Blocks":4,"Hash":"%s"}}', '', '' FROM generate_series(1, 1200)`, first.Hash))
	if r, _, err := db.VerifyRecording(ctx, "ts-1"); err != nil || !r.Intact {
		t.Errorf("%+v (%v)", r, err)
	}
	if cut := must(db.RecordingCut(ctx, "ts-1"))(t); cut != nil {
		t.Errorf("%+v", cut)
	}
	raw(`DELETE FROM recording_blocks WHERE seq >= 1`)
	must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalClosing}))(t)
	if r, _, err := db.VerifyRecording(ctx, "ts-1"); err != nil || r.Intact || !strings.Contains(r.What, "the audit log has 4 blocks") {
		t.Errorf("%+v (%v)", r, err)
	}
	cut := must(db.RecordingCut(ctx, "ts-1"))(t)
	if cut == nil || cut.Told.Blocks != 4 || cut.Left.Blocks != 1 {
		t.Fatalf("%+v", cut)
	}
	ok(t, db.NoteRecordingCut(ctx, admin, *cut))
	ok(t, db.NoteRecordingBroken(ctx, admin, "ts-1", "it has no beginning"))
	var events []string
	for _, e := range placed(t, db, store.OutboxFilter{Subject: "terminal/ts-1", Types: []string{store.RecordingBrokenEvent}}) {
		var data struct{ Code, Username string }
		ok(t, json.Unmarshal(e.Data, &data))
		events = append(events, data.Code+" "+data.Username)
	}
	if want := []string{"recording_cut tenant", "recording_broken tenant"}; !slices.Equal(events, want) {
		t.Errorf("told is %q", events)
	}
	if again := must(db.RecordingCut(ctx, "ts-1"))(t); again != nil {
		t.Errorf("what is on record is found again: %+v", again)
	}
	if r, _, err := db.VerifyRecording(ctx, "ts-1"); err != nil || r.Intact || !strings.Contains(r.What, "the blocks after block 0 were missing") {
		t.Errorf("%+v (%v)", r, err)
	}
}

// A second end, of the remaining blocks, does not count.
func TestTheFirstEndOfARecordingCounts(t *testing.T) {
	db, raw := tables(t)
	newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
	head := record(t, db, "ts-1", 3)
	ok(t, db.CloseRecording(ctx, admin, "relay:1", head))
	raw(`DELETE FROM recording_blocks WHERE seq >= 1`)
	raw(`UPDATE terminal_sessions SET recorded_at = 0`)
	rec := must(recording.Resume(ctx, db.RecordingKeeper("relay:1"), must(db.LastBlock(ctx, "ts-1"))(t), db.Now(), db.Now))(t)
	ok(t, db.CloseRecording(ctx, admin, "relay:1", must(rec.End(ctx, "over"))(t)))
	if r, told, err := db.VerifyRecording(ctx, "ts-1"); err != nil || r.Intact || told == nil || *told != head {
		t.Errorf("%+v of %+v (%v)", r, told, err)
	}
}

// A reader gets an error at a missing block, and does not read past the gap.
func TestAHoleInARecordingIsNotReadOver(t *testing.T) {
	for _, hole := range []int{0, 7, 16} {
		db, raw := tables(t)
		newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
		record(t, db, "ts-1", 20)
		raw(fmt.Sprintf(`DELETE FROM recording_blocks WHERE seq = %d`, hole))
		var read []int64
		var failed error
		for b, err := range db.Blocks(ctx, "ts-1") {
			if failed = err; err == nil {
				read = append(read, b.Seq)
			}
		}
		refused(t, failed, "recording_broken")
		if len(read) != hole || !strings.Contains(failed.Error(), fmt.Sprintf("block %d is missing", hole)) || !slices.IsSorted(read) {
			t.Errorf("%v (%v)", read, failed)
		}
		if r, _, err := db.VerifyRecording(ctx, "ts-1"); err != nil || r.Intact || !strings.Contains(r.What, fmt.Sprintf("is followed by block %d", hole+1)) {
			t.Errorf("%+v (%v)", r, err)
		}
	}
}
