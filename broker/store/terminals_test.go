package store_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func newTerminal(t testing.TB, db *store.DB, id string, n broker.Node) broker.TerminalSession {
	t.Helper()
	return must(db.CreateTerminalSession(ctx, admin, broker.TerminalSession{
		ID: id, NodeID: n.ID, NodeEpoch: n.Epoch, AllocationID: "a-1", Username: "tenant", Reason: "a look", Replica: "relay:1", RecordInput: true,
		Limits: broker.TerminalLimits{Max: time.Hour, Idle: 10 * time.Minute, Detach: time.Minute},
	}))(t)
}

func TestATerminalSessionGoesItsWay(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "alpha")
		s := newTerminal(t, db, "ts-1", n)
		if got := must(db.TerminalSession(ctx, "ts-1"))(t); got != s || s.Status != broker.TerminalOpening || s.OpenedBy != "ada" || s.Limits.Idle != 10*time.Minute || s.ExitStatus != nil || !s.RecordInput {
			t.Errorf("%+v, made as %+v", got, s)
		}
		seven := 7
		for _, m := range []store.TerminalMove{
			{To: broker.TerminalOpen},
			{To: broker.TerminalDetached},
			{To: broker.TerminalOpen},
			{To: broker.TerminalOpen},
			{To: broker.TerminalClosing, Code: "exited", ExitStatus: &seven},
			{To: broker.TerminalClosed, Code: "later"},
		} {
			clock.Advance(time.Second)
			s = must(db.MoveTerminalSession(ctx, admin, "ts-1", m))(t)
		}
		if s.Status != broker.TerminalClosed || s.EndCode != "exited" || s.ExitStatus == nil || *s.ExitStatus != 7 || !s.ClosedAt.Equal(clock.Now()) {
			t.Errorf("%+v", s)
		}
		for action, want := range map[string]int{"create": 1, "open": 2, "detached": 1, "closing": 1, "closed": 1} {
			if got := audited(t, db, "terminal."+action, ""); got != want {
				t.Errorf("%d rows of terminal.%s, want %d", got, action, want)
			}
		}
		_, err := db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalOpen})
		refused(t, err, "terminal_transition_refused")
		if audited(t, db, "terminal.open", "terminal_transition_refused") != 1 {
			t.Error("that a closed session was to open is in no audit row")
		}
	})
}

func TestATerminalSessionThatCannotBeIsRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		n := newMember(t, db, "alpha")
		_, err := db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: "ts-1", NodeID: "n-none"})
		refused(t, err, "node_not_found")
		_, err = db.CreateTerminalSession(ctx, admin, broker.TerminalSession{ID: "ts-1", NodeID: n.ID, NodeEpoch: n.Epoch + 1})
		refused(t, err, "stale_epoch")
		_, err = db.TerminalSession(ctx, "ts-1")
		refused(t, err, "terminal_session_not_found")
		_, err = db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalOpen})
		refused(t, err, "terminal_session_not_found")
		refused(t, db.SetTerminalToken(ctx, "ts-1", store.TerminalToken{}), "terminal_session_not_found")
	})
}

func TestATokenLetsOneNodeInOnce(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "alpha")
		newTerminal(t, db, "ts-1", n)
		newTerminal(t, db, "ts-2", n)
		mine := store.TerminalCaller{NodeID: n.ID, Epoch: 1, KeyDigest: "key", Replica: "relay:1"}
		other := mine
		other.KeyDigest = "other"
		minted := func(hash string) store.TerminalToken {
			return store.TerminalToken{Hash: hash, Expires: clock.Now().Add(30 * time.Second), KeyDigest: "key"}
		}
		attack := func(code, id string, by store.TerminalCaller, hash string) {
			t.Helper()
			clock.Advance(2 * time.Minute) // so that the audit log does not merge this refusal with the one before
			had := audited(t, db, "terminal.attack", code)
			_, err := db.UseTerminalToken(ctx, id, by, hash, "attacker")
			refused(t, err, code)
			if audited(t, db, "terminal.attack", code) != had+1 {
				t.Errorf("%s is in no audit row", code)
			}
		}
		use := func(hash, next string) {
			t.Helper()
			if s := must(db.UseTerminalToken(ctx, "ts-1", mine, hash, next))(t); s.ID != "ts-1" {
				t.Errorf("%+v", s)
			}
		}
		attack("terminal_token_unknown", "ts-1", mine, "") // there is no token yet
		ok(t, db.SetTerminalToken(ctx, "ts-1", minted("one")))
		attack("terminal_token_expired", "ts-1", mine, "one")
		ok(t, db.SetTerminalToken(ctx, "ts-1", minted("one")))
		attack("terminal_wrong_node", "ts-1", store.TerminalCaller{NodeID: "n-other", Epoch: 1, KeyDigest: "key", Replica: "relay:1"}, "one")
		attack("terminal_wrong_epoch", "ts-1", store.TerminalCaller{NodeID: n.ID, Epoch: 2, KeyDigest: "key", Replica: "relay:1"}, "one")
		attack("terminal_wrong_key", "ts-1", other, "one")
		attack("terminal_token_unknown", "ts-1", mine, "two")
		attack("terminal_token_unknown", "ts-2", mine, "one") // of another session
		attack("terminal_session_not_found", "ts-3", mine, "one")

		ok(t, db.SetTerminalToken(ctx, "ts-1", minted("one")))
		use("one", "lost")
		attack("terminal_token_used", "ts-1", other, "one") // by any other key
		clock.Advance(time.Hour)
		use("one", "two") // its Welcome was lost
		attack("terminal_token_unknown", "ts-1", mine, "lost")
		attack("terminal_wrong_key", "ts-1", other, "two")
		clock.Advance(30 * 24 * time.Hour) // as long as the session
		use("two", "three")
		attack("terminal_token_used", "ts-1", mine, "one")
		attack("terminal_token_used", "ts-1", other, "two")

		// A minted token does not invalidate the token in use before the minted token is used.
		ok(t, db.SetTerminalToken(ctx, "ts-1", minted("again")))
		use("three", "four")
		use("again", "five")
		superseded := func(by store.TerminalCaller, hash string) {
			t.Helper()
			had := audited(t, db, "terminal.attack", "")
			_, err := db.UseTerminalToken(ctx, "ts-1", by, hash, "late")
			refused(t, err, "terminal_token_superseded")
			if broker.AsError(err).Kind != broker.Unavailable {
				t.Errorf("it is not to come again: %v", err)
			}
			if audited(t, db, "terminal.attack", "") != had {
				t.Errorf("%s is an attack in the audit log", hash)
			}
		}
		superseded(mine, "four") // the Welcome of the newer token may have been lost
		attack("terminal_token_unknown", "ts-1", other, "four")
		attack("terminal_wrong_node", "ts-1", store.TerminalCaller{NodeID: "n-other", Epoch: 1, KeyDigest: "key", Replica: "relay:1"}, "four")
		attack("terminal_token_used", "ts-1", mine, "three")
		use("again", "six")

		// Two tokens minted before the first was shown.
		for _, hash := range []string{"first", "second"} {
			ok(t, db.SetTerminalToken(ctx, "ts-1", minted(hash)))
		}
		superseded(mine, "first")
		attack("terminal_token_unknown", "ts-1", other, "first")
		attack("terminal_token_unknown", "ts-1", mine, "guessed")
		ok(t, db.SetTerminalToken(ctx, "ts-1", minted("third")))
		use("third", "six")
		superseded(mine, "first")
		superseded(mine, "second")
		for i := range 8 { // only the last few are remembered
			ok(t, db.SetTerminalToken(ctx, "ts-1", minted(strconv.Itoa(i))))
		}
		attack("terminal_token_unknown", "ts-1", mine, "first")
		superseded(mine, "6")

		must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalClosing}))(t)
		_, err := db.UseTerminalToken(ctx, "ts-1", mine, "six", "seven")
		refused(t, err, "terminal_session_over")
		refused(t, db.SetTerminalToken(ctx, "ts-1", minted("five")), "terminal_session_over")
	})
}

// A node whose key was replaced in its epoch continues with the token of its last Welcome; the
// node's former key cannot use the token.
func TestATokenFollowsTheNodesKey(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "alpha")
		newTerminal(t, db, "ts-1", n)
		by := func(key string) store.TerminalCaller {
			return store.TerminalCaller{NodeID: n.ID, Epoch: 1, KeyDigest: key, Replica: "relay:1"}
		}
		first := must(db.Certificates(ctx, n.ID))(t)[0]
		ok(t, db.SetTerminalToken(ctx, "ts-1", store.TerminalToken{Hash: "one", Expires: clock.Now().Add(time.Second), KeyDigest: first.PublicKeyDigest}))
		must(db.UseTerminalToken(ctx, "ts-1", by(first.PublicKeyDigest), "one", "two"))(t)
		_, err := db.UseTerminalToken(ctx, "ts-1", by("rotated"), "two", "three")
		refused(t, err, "terminal_wrong_key")
		clock.Advance(time.Minute)
		must(db.RecordRenewal(ctx, store.Renewal{
			NodeID: n.ID, Epoch: 1, OldSerial: first.Serial, PublicKeyDigest: "rotated", TrustVersion: 1,
			Cert: store.IssuedCert{Serial: "s-rotated", PEM: "x", PublicKey: []byte("x"), NotBefore: clock.Now(), NotAfter: clock.Now().Add(time.Hour)},
		}))(t)
		must(db.UseTerminalToken(ctx, "ts-1", by("rotated"), "two", "three"))(t)
		_, err = db.UseTerminalToken(ctx, "ts-1", by(first.PublicKeyDigest), "three", "four")
		refused(t, err, "terminal_wrong_key")
	})
}

// A relay whose session another relay has taken changes nothing, and is not audited as an attack.
func TestARelayThatIsStaleChangesNothing(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "alpha")
		newTerminal(t, db, "ts-1", n)
		head := record(t, db, "ts-1", 1)
		ok(t, db.SetTerminalReplica(ctx, admin, "ts-1", "relay:2"))
		_, err := db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalClosed, Replica: "relay:1"})
		refused(t, err, "terminal_session_elsewhere")
		refused(t, db.CloseRecording(ctx, admin, "relay:1", head), "terminal_session_elsewhere")
		refused(t, db.RecordingKeeper("relay:1").Keep(ctx, recording.Block{SessionID: "ts-1", Seq: head.Blocks, Prev: head.Hash}), "terminal_session_elsewhere")
		ok(t, db.SetTerminalToken(ctx, "ts-1", store.TerminalToken{Hash: "one", Expires: clock.Now().Add(time.Second), KeyDigest: "key"}))
		by := store.TerminalCaller{NodeID: n.ID, Epoch: 1, KeyDigest: "key", Replica: "relay:1"}
		_, err = db.UseTerminalToken(ctx, "ts-1", by, "one", "two")
		refused(t, err, "terminal_session_elsewhere")
		if audited(t, db, "terminal.attack", "terminal_session_elsewhere") != 0 {
			t.Error("it is audited as an attack")
		}
		if s := must(db.TerminalSession(ctx, "ts-1"))(t); s.Status != broker.TerminalOpening {
			t.Errorf("%+v", s)
		}
		by.Replica = "relay:2"
		must(db.UseTerminalToken(ctx, "ts-1", by, "one", "two"))(t)
		ok(t, db.CloseRecording(ctx, admin, "relay:2", head))
		must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalClosed, Replica: "relay:2"}))(t)
	})
}

// An exit status that becomes known without a change of status is recorded.
func TestAnExitStatusIsNotedWhereASessionStands(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
		must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalDetached}))(t)
		seven, eight := 7, 8
		must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalDetached, ExitStatus: &seven}))(t)
		if s := must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalDetached, ExitStatus: &eight}))(t); s.ExitStatus == nil || *s.ExitStatus != 7 {
			t.Errorf("%+v", s)
		}
	})
}

func TestASessionMovesToAnotherRelay(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		newTerminal(t, db, "ts-1", newMember(t, db, "alpha"))
		ok(t, db.SetTerminalReplica(ctx, admin, "ts-1", "relay:2"))
		ok(t, db.SetTerminalReplica(ctx, admin, "ts-1", "relay:2"))
		if s := must(db.TerminalSession(ctx, "ts-1"))(t); s.Replica != "relay:2" || audited(t, db, "terminal.move", "") != 1 {
			t.Errorf("%+v", s)
		}
		must(db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalClosed}))(t)
		refused(t, db.SetTerminalReplica(ctx, admin, "ts-1", "relay:3"), "terminal_session_over")
	})
}

func TestTerminalsAreCounted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		n := newMember(t, db, "alpha")
		for _, id := range []string{"ts-live", "ts-ended", "ts-broken", "ts-cut", "ts-none"} {
			newTerminal(t, db, id, n)
		}
		rec := must(recording.Begin(ctx, db.RecordingKeeper("relay:1"), "ts-ended", recording.Header{Width: 80, Height: 24}, db.Now))(t)
		ok(t, db.CloseRecording(ctx, admin, "relay:1", must(rec.End(ctx, "terminal_closed"))(t)))
		// No block of these recordings is left; ts-cut was cut more than once.
		ok(t, db.NoteRecordingBroken(ctx, admin, "ts-broken", "test"))
		for range 2 {
			ok(t, db.NoteRecordingCut(ctx, admin, recording.Cut{Told: recording.Head{SessionID: "ts-cut", Blocks: 2}}))
		}
		for _, id := range []string{"ts-ended", "ts-broken", "ts-cut", "ts-none"} {
			must(db.MoveTerminalSession(ctx, admin, id, store.TerminalMove{To: broker.TerminalClosed}))(t)
		}
		if f := must(db.TerminalFigures(ctx, nil))(t); f != (store.TerminalFigures{Live: 1, Broken: 2}) {
			t.Errorf("%+v", f)
		}
		if f := must(db.TerminalFigures(ctx, []string{"elsewhere"}))(t); f != (store.TerminalFigures{}) {
			t.Errorf("%+v of a site that has none", f)
		}
		clock.Advance(31 * 24 * time.Hour) // nothing repairs the recording, and the count must end
		if f := must(db.TerminalFigures(ctx, nil))(t); f != (store.TerminalFigures{Live: 1}) {
			t.Errorf("%+v after a month", f)
		}
	})
}
