package recording_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/recording"
)

var ctx = context.Background()

// at is when all of it came that a test does not time.
var at = time.Date(2026, 7, 1, 12, 0, 0, int(500*time.Millisecond), time.UTC)

// shelf keeps blocks, and refuses as often as it is told to: with the block kept all the
// same, where its answer is lost.
type shelf struct {
	blocks  []recording.Block
	refuses int
	lost    bool
}

func (s *shelf) Keep(_ context.Context, b recording.Block) error {
	if int(b.Seq) < len(s.blocks) {
		if s.blocks[b.Seq].Hash != b.Hash {
			return errors.New("another block is in its place")
		}
		return nil
	}
	if s.refuses > 0 {
		s.refuses--
		if s.lost {
			s.blocks = append(s.blocks, b)
		}
		return errors.New("the store is away")
	}
	s.blocks = append(s.blocks, b)
	return nil
}

func all(blocks []recording.Block) iter.Seq2[recording.Block, error] {
	return func(yield func(recording.Block, error) bool) {
		for _, b := range blocks {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// events are those of a whole file, as a player reads it.
func events(t *testing.T, blocks []recording.Block) (out []recording.Event) {
	t.Helper()
	var file []byte
	for _, b := range blocks {
		file = append(file, b.Lines...)
	}
	lines := bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	if _, err := recording.ParseHeader(lines[0]); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		e, err := recording.ParseEvent(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func text(events []recording.Event, k recording.EventKind) string {
	var out strings.Builder
	for _, e := range events {
		if e.Kind == k {
			out.WriteString(e.Text)
		}
	}
	return out.String()
}

type clock struct{ at time.Time }

func (c *clock) now() time.Time {
	c.at = c.at.Add(100 * time.Millisecond)
	return c.at
}

func begin(t *testing.T, s *shelf) (*recording.Recorder, *clock) {
	t.Helper()
	c := &clock{at: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	r, err := recording.Begin(ctx, s, "ts-1", recording.Header{Width: 80, Height: 24}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

func flush(t *testing.T, r *recording.Recorder, want uint64) {
	t.Helper()
	if got, err := r.Flush(ctx); err != nil || got != want {
		t.Fatalf("it is safe up to %d (%v), want %d", got, err, want)
	}
}

func TestWhatATerminalWroteCanBePlayed(t *testing.T) {
	s := &shelf{}
	r, _ := begin(t, s)
	r.Output(at, []byte("$ "))
	flush(t, r, 2)
	flush(t, r, 2)
	r.Resize(at, 100, 30)
	r.Output(at, []byte("\x1b[31mgrün\x1b[0m\r\n"))
	r.Input(at, []byte("ls\r"))
	flush(t, r, 18)
	head, err := r.End(ctx, "exit status 0")
	if err != nil {
		t.Fatal(err)
	}
	if report, err := recording.Verify("ts-1", all(s.blocks), recording.Told{End: &head}); err != nil || !report.Complete || report.Bytes != 18 || report.Blocks != 4 {
		t.Errorf("%+v (%v)", report, err)
	}
	got := events(t, s.blocks)
	if text(got, recording.Output) != "$ \x1b[31mgrün\x1b[0m\r\n" || text(got, recording.Input) != "ls\r" || text(got, recording.Resize) != "100x30" ||
		text(got, recording.Marker) != "hostler: the session ended: exit status 0" {
		t.Errorf("%+v", got)
	}
	if !slices.IsSortedFunc(got, func(a, b recording.Event) int { return int(a.After - b.After) }) || got[0].After <= 0 {
		t.Errorf("its times are %+v", got)
	}
}

// A character may come in two pieces, which nobody may be shown before both are kept.
func TestACharacterIsKeptWhole(t *testing.T) {
	s := &shelf{}
	r, _ := begin(t, s)
	euro := []byte("a€")
	r.Output(at, euro[:2])
	flush(t, r, 1)
	r.Output(at, euro[2:3])
	flush(t, r, 1)
	r.Output(at, euro[3:])
	flush(t, r, 4)
	r.Output(at, []byte{0xff, 'b', 0xe2})
	flush(t, r, 6)
	if _, err := r.End(ctx, "over"); err != nil {
		t.Fatal(err)
	}
	if got := text(events(t, s.blocks), recording.Output); got != "a€\ufffdb\ufffd" {
		t.Errorf("%q", got)
	}
	if last := s.blocks[len(s.blocks)-1]; last.To != 7 {
		t.Errorf("its end is at %d", last.To)
	}
}

// A character that is never completed is shown all the same, and what comes after it as it is.
func TestTheBeginningOfACharacterIsSettled(t *testing.T) {
	s := &shelf{}
	r, _ := begin(t, s)
	r.Output(at, []byte("a\xe2\x82"))
	flush(t, r, 1)
	if !r.Waits() {
		t.Error("it waits for nothing")
	}
	r.Settle(at)
	flush(t, r, 3)
	r.Settle(at)
	flush(t, r, 3)
	r.Output(at, []byte("b"))
	flush(t, r, 4)
	if got := text(events(t, s.blocks), recording.Output); got != "a\ufffd\ufffdb" || r.Waits() {
		t.Errorf("%q", got)
	}
}

// The times are those at which bytes came, not at which they were kept; and never go back.
func TestTimesAreThoseOfTheTerminal(t *testing.T) {
	s := &shelf{}
	r, c := begin(t, s)
	began := c.at.Add(-100 * time.Millisecond) // the clock was asked once more
	for _, after := range []time.Duration{time.Second, 2 * time.Second, time.Second, 5 * time.Second} {
		r.Output(began.Add(after), []byte("x"))
	}
	c.at = began.Add(time.Minute)
	flush(t, r, 4)
	var got []time.Duration
	for _, e := range events(t, s.blocks) {
		got = append(got, e.After)
	}
	if want := []time.Duration{time.Second, 2 * time.Second, 2 * time.Second, 5 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A store that is away delays what is safe, and loses nothing; nor does an answer of its
// that is lost.
func TestAStoreThatFailsLosesNothing(t *testing.T) {
	for _, lost := range []bool{false, true} {
		s := &shelf{lost: lost}
		r, _ := begin(t, s)
		s.refuses = 1
		r.Output(at, []byte("one"))
		if to, err := r.Flush(ctx); err == nil || to != 0 {
			t.Fatalf("it is safe up to %d (%v)", to, err)
		}
		r.Output(at, []byte("two"))
		flush(t, r, 6)
		s.refuses = 1
		if _, err := r.End(ctx, "over"); err == nil {
			t.Fatal("its end was kept")
		}
		head, err := r.End(ctx, "over")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := r.End(ctx, "over"); err != nil || again != head {
			t.Errorf("%+v (%v), and then %+v", head, err, again)
		}
		if report, err := recording.Verify("ts-1", all(s.blocks), recording.Told{End: &head}); err != nil || !report.Complete || text(events(t, s.blocks), recording.Output) != "onetwo" {
			t.Errorf("lost answer %v: %+v (%v)", lost, report, err)
		}
	}
}

// After a crash it goes on with the byte after the last that is safe, and says so.
func TestARecordingGoesOnAfterACrash(t *testing.T) {
	s := &shelf{}
	r, c := begin(t, s)
	r.Output(at, []byte("before"))
	flush(t, r, 6)
	r.Output(at, []byte("never kept"))
	began := s.blocks[0].At
	again, err := recording.Resume(ctx, s, s.blocks[len(s.blocks)-1], began, c.now)
	if err != nil {
		t.Fatal(err)
	}
	again.Output(at, []byte(" after"))
	again.Gap(at, 100, "the node kept no more")
	flush(t, again, 112)
	if report, err := recording.Verify("ts-1", all(s.blocks), recording.Told{}); err != nil || report.Complete || !report.Intact || report.Lost != 100 || !strings.Contains(report.What, "no end after block 3") {
		t.Errorf("%+v (%v)", report, err)
	}
	got := events(t, s.blocks)
	if text(got, recording.Output) != "before after" || !strings.Contains(text(got, recording.Marker), "the relay continued the recording") || !strings.Contains(text(got, recording.Marker), "100 bytes of output are lost") {
		t.Errorf("%+v", got)
	}
	// The one before it, which knows nothing of that, has lost its place.
	if _, err := r.Flush(ctx); err == nil {
		t.Error("two write the same recording")
	}
	if _, err := again.End(ctx, "over"); err != nil {
		t.Fatal(err)
	}
	if _, err := recording.Resume(ctx, s, s.blocks[len(s.blocks)-1], began, c.now); broker.AsError(err).Code != "recording_ended" {
		t.Errorf("after its end: %v", err)
	}
	changed := s.blocks[1]
	changed.To++
	if _, err := recording.Resume(ctx, s, changed, began, c.now); broker.AsError(err).Code != "recording_broken" {
		t.Errorf("after a block that was changed: %v", err)
	}
}

// Whoever can write to the tables can do all of this.
func TestWhatWasDoneToARecordingIsFound(t *testing.T) {
	made := func() ([]recording.Block, recording.Head) {
		s := &shelf{}
		r, _ := begin(t, s)
		for _, line := range []string{"rm -rf /\r\n", "never mind\r\n", "exit\r\n"} {
			r.Output(at, []byte(line))
			if _, err := r.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		head, err := r.End(ctx, "over")
		if err != nil {
			t.Fatal(err)
		}
		return s.blocks, head
	}
	rewritten, _ := made()
	for name, c := range map[string]struct {
		do   func(b []recording.Block) []recording.Block
		what string
	}{
		"a line is another": {func(b []recording.Block) []recording.Block {
			b[1].Lines = bytes.Replace(b[1].Lines, []byte("rm"), []byte("ls"), 1)
			return b
		}, "block 1 was changed"},
		"a time is another": {func(b []recording.Block) []recording.Block { b[2].At = b[2].At.Add(time.Hour); return b }, "block 2 was changed"},
		"a gap is hidden":   {func(b []recording.Block) []recording.Block { b[2].To += 5; return b }, "block 2 was changed"},
		"a block is gone":   {func(b []recording.Block) []recording.Block { return slices.Delete(b, 1, 2) }, "block 0 is followed by block 2"},
		"two are exchanged": {func(b []recording.Block) []recording.Block { b[1], b[2] = b[2], b[1]; return b }, "block 0 is followed by block 2"},
		"numbers fit again": {func(b []recording.Block) []recording.Block {
			b = slices.Delete(b, 1, 2)
			for i := range b {
				b[i].Seq = int64(i)
			}
			return b
		}, "block 1 does not continue where block 0 ends"},
		"its end is cut off":     {func(b []recording.Block) []recording.Block { return b[:len(b)-1] }, "the audit log has 5 blocks"},
		"the end is called none": {func(b []recording.Block) []recording.Block { b[4].Last = false; return b }, "block 4 was changed"},
		"it goes on after": {func(b []recording.Block) []recording.Block {
			return append(b, recording.Block{SessionID: "ts-1", Seq: 5})
		}, "blocks after the last one"},
		"it is another's": {func(b []recording.Block) []recording.Block { b[0].SessionID = "ts-2"; return b }, `a block of session "ts-2"`},
		"it is made anew": {func([]recording.Block) []recording.Block {
			s := &shelf{}
			r, _ := begin(t, s)
			if _, err := r.End(ctx, "over"); err != nil {
				t.Fatal(err)
			}
			return s.blocks
		}, "the audit log has 5 blocks"},
		"all of it is gone": {func([]recording.Block) []recording.Block { return nil }, "the recording has no block"},
	} {
		blocks, head := made()
		report, err := recording.Verify("ts-1", all(c.do(blocks)), recording.Told{End: &head})
		if err != nil || report.Complete || report.Intact || !strings.Contains(report.What, c.what) {
			t.Errorf("%s: %+v (%v), want %q", name, report, err, c.what)
		}
	}
	if report, _ := recording.Verify("ts-1", all(rewritten), recording.Told{Closed: true}); report.Complete || report.Intact || !strings.Contains(report.What, "no entry") {
		t.Errorf("an end that was never told: %+v", report)
	}
	day := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	blocks, head := made()
	for what, c := range map[string]struct {
		blocks []recording.Block
		told   *recording.Head
		intact bool
	}{
		"the recording was deleted at 2026-08-01T12:00:00Z, at the end of its retention time: it had 5 blocks": {nil, &head, true},
		"the recording was deleted, and blocks exist":                                                          {blocks, &head, false},
		"the recording was deleted, and the audit log has no entry about its end":                              {nil, nil, false},
	} {
		if r, err := recording.Verify("ts-1", all(c.blocks), recording.Told{End: c.told, Dropped: day}); err != nil || r.Complete || r.Intact != c.intact || !strings.Contains(r.What, what) || !r.DroppedAt.Equal(day) {
			t.Errorf("%+v (%v), want %q", r, err, what)
		}
	}
	broken := errors.New("the disk is gone")
	unread := func(yield func(recording.Block, error) bool) { yield(recording.Block{}, broken) }
	if _, err := recording.Verify("ts-1", unread, recording.Told{}); !errors.Is(err, broken) {
		t.Errorf("blocks that cannot be read: %v", err)
	}
}

func TestALineThatIsNoneIsRefused(t *testing.T) {
	for _, line := range []string{
		``, `{}`, `{"version":1,"width":80,"height":24}`, `{"version":2,"width":0,"height":24}`, `{"version":2,"width":80,"height":99999}`,
		`{"version":2,"width":80,"height":24}{}`, `[]`, "{\"version\":2,\"width\":80,\"height\":24,\"title\":\"\xff\"}",
	} {
		if h, err := recording.ParseHeader([]byte(line)); broker.AsError(err).Code != "asciicast_invalid" {
			t.Errorf("%q is read as %+v (%v)", line, h, err)
		}
	}
	for _, line := range []string{
		``, `[]`, `[1,"o"]`, `[1,"o","a","b"]`, `[-1,"o","a"]`, `["1","o","a"]`, `[1e300,"o","a"]`, `[1,"x","a"]`, `[1,2,"a"]`, `[1,"o",2]`, `[1,"o",null]`,
		`[1,"r","80"]`, `[1,"r","80x24x"]`, `[1,"r","0x24"]`, `[1,"r","080x24"]`, `[1,"o","a"] [2,"o","b"]`, "[1,\"o\",\"\xff\"]",
		`[1,"o","` + strings.Repeat("a", 200<<10) + `"]`,
	} {
		if e, err := recording.ParseEvent([]byte(line)); broker.AsError(err).Code != "asciicast_invalid" {
			t.Errorf("%.60q is read as %+v (%v)", line, e, err)
		}
	}
	// As other programs write them.
	if h, err := recording.ParseHeader([]byte(`{"version": 2, "width": 80, "height": 24, "timestamp": 1504467315, "theme": {"fg": "#fff"}, "env": {"TERM": "xterm"}}`)); err != nil || h.Width != 80 || h.Env["TERM"] != "xterm" {
		t.Errorf("%+v (%v)", h, err)
	}
	if e, err := recording.ParseEvent([]byte(`[0.248848, "o", "\u001b[1;31mHello"]`)); err != nil || e.After != 248848*time.Microsecond || e.Text != "\x1b[1;31mHello" {
		t.Errorf("%+v (%v)", e, err)
	}
}

// Bytes that nobody has are no less lost because their place says so.
func TestARecordingWithGapsIsNotComplete(t *testing.T) {
	s := &shelf{}
	r, _ := begin(t, s)
	for range 7 {
		r.Output(at, []byte("shown"))
		r.Gap(at, 10, "the node no longer has these bytes")
		if _, err := r.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := recording.Verify("ts-1", all(s.blocks), recording.Told{}); err != nil || !report.Intact || report.Ended || !strings.HasSuffix(report.What, "cut off there; 70 bytes of output are lost, in block 1, 2, 3, 4, 5 and 2 more") {
		t.Errorf("%+v (%v)", report, err)
	}
	head, err := r.End(ctx, "over")
	if err != nil {
		t.Fatal(err)
	}
	report, err := recording.Verify("ts-1", all(s.blocks), recording.Told{End: &head, Closed: true})
	if err != nil || !report.Intact || !report.Ended || report.Complete || report.What != "70 bytes of output are lost, in block 1, 2, 3, 4, 5 and 2 more" {
		t.Errorf("%+v (%v)", report, err)
	}
}

// What the audit log was told once, also before the session went on, has to be there.
func TestARecordingIsHeldToAllThatWasTold(t *testing.T) {
	s := &shelf{}
	r, c := begin(t, s)
	heads := []recording.Head{{SessionID: "ts-1"}, r.Head()} // the first is of a recording that has not begun
	for range 4 {
		r.Output(at, []byte("shown"))
		if _, err := r.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		heads = append(heads, r.Head())
	}
	if report, err := recording.Verify("ts-1", all(s.blocks), recording.Told{Heads: heads}); err != nil || !report.Intact {
		t.Errorf("%+v (%v)", report, err)
	}
	s.blocks = s.blocks[:2]
	left := recording.HeadOf(s.blocks[1])
	again, err := recording.Resume(ctx, s, s.blocks[1], s.blocks[0].At, c.now)
	if err != nil {
		t.Fatal(err)
	}
	again.Cut(heads[5])
	if at, err := again.Flush(ctx); err != nil || at != 20 {
		t.Errorf("it goes on at %d (%v)", at, err)
	}
	if said := text(events(t, s.blocks), recording.Marker); !strings.Contains(said, "the audit log has 5 blocks") || !strings.Contains(said, "15 bytes of output are lost") {
		t.Errorf("%q", said)
	}
	cuts := []recording.Cut{{Told: heads[5], Left: left}}
	end, err := again.End(ctx, "over")
	if err != nil {
		t.Fatal(err)
	}
	for what, told := range map[string]recording.Told{
		"block 2 differs":                                            {Heads: heads, End: &end},
		"the blocks after block 1 were missing":                      {Heads: append(heads, left), Cuts: cuts, End: &end},
		"the audit log has 9 blocks":                                 {Heads: []recording.Head{{Blocks: 9, Hash: "x"}}, End: &end},
		"all blocks were missing when the recording was to continue": {Heads: heads, Cuts: []recording.Cut{{Told: heads[5]}}, End: &end},
	} {
		if report, err := recording.Verify("ts-1", all(s.blocks), told); err != nil || report.Intact || report.Ended || report.Complete || !strings.Contains(report.What, what) {
			t.Errorf("%+v (%v), want %q", report, err, what)
		}
	}
}
