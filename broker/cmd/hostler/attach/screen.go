package attach

import (
	"fmt"
	"io"

	"github.com/hostler/hostler/broker/escape"
	"github.com/hostler/hostler/taskcatalog"
)

// mostPending bounds the notes of a session whose terminal accepts nothing.
const mostPending = 100

// screen is the operator's terminal. The loop prepares the output, and one goroutine writes it,
// piece by piece.
type screen struct {
	out, err io.Writer
	raw      bool // a line end needs a carriage return
	filter   *escape.Filter

	pending []piece
	spare   []byte // buffer of a written piece, for reuse
	unseen  uint64 // bytes from the node, pending or being written
	busy    bool
	to      chan piece
	written chan wrote
}

// piece is output from the node, or a line of this program.
type piece struct {
	bytes []byte
	of    uint64 // the number of the node's bytes that it stands for
	note  string
}

type wrote struct {
	piece
	err error
}

func newScreen(c *Config) *screen {
	return &screen{out: c.Out, err: c.Err, filter: escape.New(c.Filter), to: make(chan piece), written: make(chan wrote, 1)}
}

// run writes until it is closed.
func (s *screen) run() {
	for p := range s.to {
		if p.note != "" {
			_, _ = io.WriteString(s.err, p.note)
			s.written <- wrote{piece: p}
			continue
		}
		_, err := s.out.Write(p.bytes)
		s.written <- wrote{p, err}
	}
}

func (s *screen) show(b []byte) {
	s.unseen += uint64(len(b))
	if n := len(s.pending); n > 0 && s.pending[n-1].note == "" {
		last := &s.pending[n-1]
		last.bytes, last.of = s.filter.Append(last.bytes, b), last.of+uint64(len(b))
		return
	}
	s.pending = append(s.pending, piece{bytes: s.filter.Append(s.spare, b), of: uint64(len(b))})
	s.spare = nil
}

// note queues a line of this program.
func (s *screen) note(format string, args ...any) {
	if len(s.pending) > mostPending { // nobody reads the notes
		return
	}
	text := taskcatalog.Clean(fmt.Sprintf(format, args...), 1000)
	if s.raw {
		text = "\r\nhostler: " + text + "\r\n"
	} else {
		text += "\n"
	}
	s.pending = append(s.pending, piece{note: text})
}

// offer returns the operands of a select that hands a piece to run.
func (s *screen) offer() (chan<- piece, piece) {
	if s.busy || len(s.pending) == 0 {
		return nil, piece{}
	}
	return s.to, s.pending[0]
}

func (s *screen) taken() {
	s.busy = true
	s.pending = s.pending[1:]
}

func (s *screen) wrote(w wrote) {
	s.busy = false
	s.unseen -= w.of
	if w.bytes != nil {
		s.spare = w.bytes[:0]
	}
}

// idle reports that everything is written.
func (s *screen) idle() bool { return !s.busy && len(s.pending) == 0 }
