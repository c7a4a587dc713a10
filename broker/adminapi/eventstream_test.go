package adminapi

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker/store"
)

// stuck is a reader that accepts nothing.
type stuck struct {
	http.ResponseWriter
	until time.Time
}

func (s *stuck) SetWriteDeadline(t time.Time) error {
	s.until = t
	return nil
}

func (s *stuck) Write([]byte) (int, error) {
	time.Sleep(time.Until(s.until)) // in the bubble's time
	return 0, os.ErrDeadlineExceeded
}

func TestAReaderWhoTakesNothingIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &stuck{}
		s := eventStream{w: w, control: http.NewResponseController(w)}
		begun := time.Now()
		if err := s.send([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(begun); took != takeLimit {
			t.Errorf("it took %s", took)
		}
	})
}

// quick is a reader that accepts everything.
type quick struct{ stuck }

func (q *quick) Write(p []byte) (int, error) { return len(p), nil }
func (q *quick) Flush()                      {}

// Over HTTP/2 an expired deadline ends a stream even if nobody writes.
func TestAQuietStreamHasNoDeadline(t *testing.T) {
	w := &quick{}
	s := eventStream{w: w, control: http.NewResponseController(w)}
	if err := s.send([]byte("x")); err != nil || !w.until.IsZero() {
		t.Errorf("after it was written (%v) the deadline is %s", err, w.until)
	}
}

// A reader with a narrow filter is told how far the stream has come, so that skipped events need
// not be kept for that reader.
func TestAStreamSaysHowFarItHasCome(t *testing.T) {
	s := eventStream{form: &platformForm{lastSent: 3}}
	for _, row := range []struct {
		page []store.OutboxEvent
		upTo int64
		want string
	}{
		{nil, 3, ": still here\n\n"},
		{nil, 7, "id: 7\n: still here\n\n"},
		{nil, 7, ": still here\n\n"},
		{[]store.OutboxEvent{{Position: 8, Type: "t", Source: "s", Data: []byte(`{"a":"b\nc"}`)}}, 8, "id: 8\ndata: {"},
	} {
		text, err := s.frame(row.page, row.upTo)
		if err != nil || !strings.HasPrefix(string(text), row.want) {
			t.Errorf("up to %d it says %q, %v", row.upTo, text, err)
		}
		if strings.Count(string(text), "\n\n") > len(row.page)+1 {
			t.Errorf("an event is broken in two: %q", text)
		}
	}
}
