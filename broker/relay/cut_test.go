package relay_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/pki/pkitest"
	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// cutSite returns a relay and a session that another relay recorded in six blocks, known to the
// audit log. raw stands for an attacker who can write to the tables.
func cutSite(t *testing.T) (s *site, raw func(query string)) {
	t.Helper()
	clock, url := storetest.NewClock(), storetest.URL(t, "sqlite")
	s = &site{T: t, clock: clock, ca: pkitest.NewAt(t, clock.Now()), db: storetest.Reopen(t, url, clock.Now)}
	s.node = s.enroll("alpha")
	must(s.db.CreateTerminalSession(ctx, admin, broker.TerminalSession{
		ID: "ts-1", NodeID: s.node.NodeID, NodeEpoch: 1, Username: "tenant", Replica: "relay:1", Limits: broker.TerminalLimits{Max: time.Hour, Detach: time.Minute},
	}))(t)
	r := must(recording.Begin(ctx, s.db.RecordingKeeper("relay:1"), "ts-1", recording.Header{Width: 80, Height: 24}, s.db.Now))(t)
	for i := range 5 {
		r.Output(s.db.Now(), fmt.Appendf(nil, "line %d\r\n", i))
		must(r.Flush(ctx))(t)
	}
	must(s.db.MoveTerminalSession(ctx, admin, "ts-1", store.TerminalMove{To: broker.TerminalDetached}))(t)
	s.begin()
	db := must(sql.Open("sqlite", strings.TrimPrefix(url, "sqlite:")))(t)
	t.Cleanup(func() { _ = db.Close() })
	return s, func(query string) {
		t.Helper()
		must(db.ExecContext(ctx, query))(t)
	}
}

func (s *site) said(action string) []store.SealedEntry {
	s.Helper()
	return must(s.db.ListAudit(ctx, store.AuditFilter{Subject: "terminal/ts-1", Action: action}))(s)
}

// A part cut off a recording of a killed relay is noticed after the recording's end, too.
func TestARecordingThatWasCutIsNotCompleteAfterItsEnd(t *testing.T) {
	for cut, c := range map[string]struct {
		from, lost int
		what       string
	}{
		"from its first line on": {1, 40, "the blocks after block 0 were missing when the recording was to continue"},
		"of its last line":       {5, 0, "the blocks after block 4 were missing when the recording was to continue"},
		"of all of it":           {0, 0, "the recording has no block"},
	} {
		s, raw := cutSite(t)
		raw(fmt.Sprintf("DELETE FROM recording_blocks WHERE seq >= %d", c.from))
		for range 2 {
			if err := s.relay.Reap(ctx, "ts-1", "relay_lost", "nobody has it"); err != nil {
				t.Fatal(err)
			}
		}
		if row := must(s.db.TerminalSession(ctx, "ts-1"))(t); row.Status != broker.TerminalClosed {
			t.Errorf("%s: it is %s", cut, row.Status)
		}
		if r := s.verify(); r.Intact || r.Complete || r.Ended || int(r.Lost) != c.lost || !strings.Contains(r.What, c.what) {
			t.Errorf("%s: %+v", cut, r)
		}
		if rows := s.said("recording.cut"); len(rows) != 1 || rows[0].Code != "recording_cut" {
			t.Errorf("%s: %+v", cut, rows)
		}
		if c.from > 0 && !strings.Contains(s.recorded(recording.Marker), "6 blocks") {
			t.Errorf("%s: the recording says %q", cut, s.recorded(recording.Marker))
		}
	}
}

// A relay that continues a cut recording records the loss once, and continues after the lost bytes:
// the node no longer has them.
func TestARecordingThatWasCutGoesOnAndSaysSo(t *testing.T) {
	for _, from := range []int{0, 2} {
		s, raw := cutSite(t)
		raw(fmt.Sprintf("DELETE FROM recording_blocks WHERE seq >= %d", from))
		for range 2 { // the second finds nothing more to record
			if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
				t.Fatal(err)
			}
			if last := must(s.db.LastBlock(ctx, "ts-1"))(t); last.To != 40 || last.Lost != uint64(40-8*max(from-1, 0)) {
				t.Errorf("it goes on at %d, and lost %d", last.To, last.Lost)
			}
			s.closed()
			s.begin()
		}
		if said := s.recorded(recording.Marker); strings.Count(said, "6 blocks") != 1 || len(s.said("recording.cut")) != 1 {
			t.Errorf("%q", said)
		}
		if err := s.relay.Reap(ctx, "ts-1", "relay_lost", "nobody has it"); err != nil {
			t.Fatal(err)
		}
		if r := s.verify(); r.Intact || r.Complete || !strings.Contains(r.What, "were missing when the recording was to continue") {
			t.Errorf("%+v", r)
		}
	}
}

// A relay killed between ending a recording and telling the audit log leaves the recording intact.
func TestAnEndThatIsNotToldYetIsNoLoss(t *testing.T) {
	s, _ := cutSite(t)
	last := must(s.db.LastBlock(ctx, "ts-1"))(t)
	rec := must(recording.Resume(ctx, s.db.RecordingKeeper("relay:1"), last, s.db.Now(), s.db.Now))(t)
	must(rec.End(ctx, "over"))(t)
	if r := s.verify(); !r.Intact || r.Complete || r.Ended || !strings.Contains(r.What, "not in the audit log yet") {
		t.Errorf("%+v", r)
	}
	if err := s.relay.Reap(ctx, "ts-1", "relay_lost", "nobody has it"); err != nil {
		t.Fatal(err)
	}
	if r := s.verify(); !r.Complete || !r.Ended {
		t.Errorf("%+v", r)
	}
}

// The audit log learns the length of a recording while the session's status stays the same.
func TestAnOpenSessionTellsHowFarItsRecordingIs(t *testing.T) {
	s := newSiteWith(t, broker.TerminalLimits{Max: time.Hour, Detach: time.Hour})
	n, _ := s.join("tls", s.token, frame.Hello{})
	n.write(0, "one")
	if told := s.said("recording.anchor"); len(told) != 0 {
		t.Errorf("%+v", told)
	}
	s.clock.Advance(3 * time.Minute)
	s.eventually("it is told", func() bool { return len(s.said("recording.anchor")) == 1 })
	s.clock.Advance(3 * time.Minute) // nothing was written since
	n.write(3, "two")
	s.eventually("it is told again", func() bool { return len(s.said("recording.anchor")) == 2 })
	if row := s.said("recording.anchor")[1]; !bytes.Contains(row.After, []byte(must(s.db.LastBlock(ctx, "ts-1"))(t).Hash)) {
		t.Errorf("%s, and not of the last block", row.After)
	}
	if err := s.relay.Close(ctx, "ts-1", "terminal_closed", "test"); err != nil {
		t.Fatal(err)
	}
	if r := s.verify(); !r.Complete {
		t.Errorf("%+v", r)
	}
}

// A relay that releases a session tells the audit log the length of its recording. So a part cut
// off since the last anchor is missed, whether or not another relay has already continued.
func TestARelayThatLetsGoTellsHowFarTheRecordingWas(t *testing.T) {
	for name, moves := range map[string]func(s *site, cut func()){
		"another has taken it": func(s *site, cut func()) {
			had := s.relay
			cut()
			s.begin()
			if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
				t.Fatal(err)
			}
			if err := had.Release("ts-1"); err != nil {
				t.Fatal(err)
			}
		},
		"it stops": func(s *site, cut func()) {
			s.closed()
			cut()
			s.begin()
			if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, cutting := range []bool{true, false} {
			s := newSiteWith(t, broker.TerminalLimits{Max: time.Hour, Detach: time.Hour})
			n, _ := s.join("tls", s.token, frame.Hello{})
			for at, text := range []string{"one", "two"} {
				n.write(uint64(3*at), text)
				s.eventually(text+" is kept", func() bool { return must(s.db.LastBlock(ctx, "ts-1"))(t).To == uint64(3*at+3) })
			}
			if told := s.said("recording.anchor"); len(told) != 0 {
				t.Errorf("%s: it was told before: %+v", name, told)
			}
			moves(s, func() {
				if cutting {
					s.exec(`DELETE FROM recording_blocks WHERE upto = 6`)
				}
			})
			s.eventually(name+", and how far it was is told", func() bool { return len(s.said("recording.anchor")) == 1 })
			if err := s.relay.Close(ctx, "ts-1", "terminal_closed", "test"); err != nil {
				t.Fatal(err)
			}
			if r := s.verify(); r.Complete == cutting || r.Intact == cutting {
				t.Errorf("%s, and it is cut: %t, and this is found: %+v", name, cutting, r)
			}
		}
	}
}

// After a relay was killed only the node knows how much output was acknowledged. If some of that is
// missing, the recording gets a gap.
func TestANodeThatComesBackKnowsWhatWasCut(t *testing.T) {
	s := newSiteWith(t, broker.TerminalLimits{Max: time.Hour, Detach: time.Hour})
	n, _ := s.join("tls", s.token, frame.Hello{})
	for at, text := range []string{"one", "two"} {
		n.write(uint64(3*at), text)
		s.eventually(text+" is kept", func() bool { return must(s.db.LastBlock(ctx, "ts-1"))(t).To == uint64(3*at+3) })
	}
	s.exec(`DELETE FROM recording_blocks WHERE upto = 6`)
	s.begin()
	if err := s.relay.Open(ctx, "ts-1", recording.Header{Width: 80, Height: 24}); err != nil {
		t.Fatal(err)
	}
	s.join("tls", s.mint("ts-1", s.node), frame.Hello{From: 6, Sent: 6})
	if err := s.relay.Close(ctx, "ts-1", "terminal_closed", "test"); err != nil {
		t.Fatal(err)
	}
	if r := s.verify(); r.Complete || r.Lost != 3 {
		t.Errorf("%+v", r)
	}
}
