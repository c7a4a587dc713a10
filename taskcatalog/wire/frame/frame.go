package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/hostler/hostler/taskcatalog"
)

// Kind is the first byte of a frame.
type Kind byte

// The kinds. A number is never reused.
const (
	KindHello   Kind = 1
	KindWelcome Kind = 2
	KindBye     Kind = 3
	KindData    Kind = 4
	KindAck     Kind = 5
	KindEOF     Kind = 6
	KindResize  Kind = 7
	KindSignal  Kind = 8
	KindExit    Kind = 9
	KindPing    Kind = 10
	KindPong    Kind = 11
	KindState   Kind = 12
)

// Bounds.
const (
	MaxData   = 16 << 10 // bytes of a Data frame
	maxJSON   = 4 << 10
	maxSignal = 16
	header    = 5
	offset    = 8
)

// Largest is the greatest length of a frame, in bytes.
const Largest = header + offset + MaxData

// Frame is implemented by the frame types of this package.
type Frame interface {
	Kind() Kind
	payload(to []byte) []byte
}

// Data carries bytes of a direction with their offset.
type Data struct {
	Offset uint64
	Bytes  []byte // one to MaxData
}

// Ack says up to where the bytes of the other direction were taken for good (Taken), and up to
// where they may be sent (Limit). Neither position ever decreases.
type Ack struct{ Taken, Limit uint64 }

// EOF ends a direction; the other direction continues.
type EOF struct{ Offset uint64 }

// Resize is the size of the operator's terminal, in characters.
type Resize struct{ Columns, Rows uint16 }

// Signal sends a signal to the foreground processes of the terminal.
type Signal struct{ Name string } // without SIG: HUP, INT, QUIT, TERM, KILL, USR1, USR2, CONT, TSTP

// Exit says how the program in the terminal ended. Only a Bye follows an Exit.
type Exit struct {
	Status int32  // 0 to 255; 128 and more after a signal
	Signal string // the signal; empty: none
}

// Ping asks whether the other side is there. The other side answers with a Pong of the same nonce.
type Ping struct{ Nonce uint64 }

// Pong answers a Ping.
type Pong struct{ Nonce uint64 }

// Kind implements Frame.
func (Data) Kind() Kind   { return KindData }
func (Ack) Kind() Kind    { return KindAck }
func (EOF) Kind() Kind    { return KindEOF }
func (Resize) Kind() Kind { return KindResize }
func (Signal) Kind() Kind { return KindSignal }
func (Exit) Kind() Kind   { return KindExit }
func (Ping) Kind() Kind   { return KindPing }
func (Pong) Kind() Kind   { return KindPong }

var be = binary.BigEndian

func (f Data) payload(to []byte) []byte { return append(be.AppendUint64(to, f.Offset), f.Bytes...) }
func (f Ack) payload(to []byte) []byte {
	return be.AppendUint64(be.AppendUint64(to, f.Taken), f.Limit)
}
func (f EOF) payload(to []byte) []byte { return be.AppendUint64(to, f.Offset) }
func (f Resize) payload(to []byte) []byte {
	return be.AppendUint16(be.AppendUint16(to, f.Columns), f.Rows)
}
func (f Signal) payload(to []byte) []byte { return append(to, f.Name...) }
func (f Exit) payload(to []byte) []byte {
	return append(be.AppendUint32(to, uint32(f.Status)), f.Signal...)
}
func (f Ping) payload(to []byte) []byte { return be.AppendUint64(to, f.Nonce) }
func (f Pong) payload(to []byte) []byte { return be.AppendUint64(to, f.Nonce) }

// Append appends the encoded frame. Codes: frame_invalid, for a frame that the other side would
// refuse.
func Append(to []byte, f Frame) ([]byte, error) {
	at := len(to)
	to = f.payload(append(to, byte(f.Kind()), 0, 0, 0, 0))
	body := to[at+header:]
	be.PutUint32(to[at+1:], uint32(len(body)))
	if _, err := parse(f.Kind(), body); err != nil {
		return to[:at], err
	}
	return to, nil
}

// Parse reads one frame that fills raw, as in a datagram or a WebSocket message. The frame shares
// raw's memory. Codes: frame_invalid.
func Parse(raw []byte) (Frame, error) {
	if len(raw) < header || uint64(be.Uint32(raw[1:])) != uint64(len(raw)-header) {
		return nil, invalid("%d bytes are no frame", len(raw))
	}
	return parse(Kind(raw[0]), raw[header:])
}

// Reader reads frames from a stream and buffers at most one frame.
type Reader struct {
	from io.Reader
	buf  []byte
}

// NewReader returns a Reader of one stream.
func NewReader(from io.Reader) *Reader { return &Reader{from: from} }

// Next reads a frame. The frame's bytes are valid until the next call. A stream that ends between
// two frames gives io.EOF; a stream that ends within a frame gives io.ErrUnexpectedEOF. Codes:
// frame_invalid.
func (r *Reader) Next() (Frame, error) {
	var head [header]byte
	if _, err := io.ReadFull(r.from, head[:]); err != nil {
		return nil, err
	}
	kind, n := Kind(head[0]), be.Uint32(head[1:])
	if least, most, known := bounds(kind); !known || n < uint32(least) || n > uint32(most) {
		return nil, invalid("kind %d with %d bytes", kind, n)
	}
	if cap(r.buf) < int(n) {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.from, r.buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return parse(kind, r.buf)
}

// bounds returns the least and greatest payload length of a kind.
func bounds(k Kind) (least, most int, known bool) {
	switch k {
	case KindHello, KindWelcome, KindBye, KindState:
		return 2, maxJSON, true
	case KindData:
		return offset + 1, offset + MaxData, true
	case KindAck:
		return 16, 16, true
	case KindEOF, KindPing, KindPong:
		return 8, 8, true
	case KindResize:
		return 4, 4, true
	case KindSignal:
		return 1, maxSignal, true
	case KindExit:
		return 4, 4 + maxSignal, true
	}
	return 0, 0, false
}

func parse(k Kind, b []byte) (Frame, error) {
	if least, most, known := bounds(k); !known || len(b) < least || len(b) > most {
		return nil, invalid("kind %d with %d bytes", k, len(b))
	}
	switch k {
	case KindHello:
		return parseJSON[Hello](b)
	case KindWelcome:
		return parseJSON[Welcome](b)
	case KindBye:
		return parseJSON[Bye](b)
	case KindState:
		f, err := parseJSON[State](b)
		if err == nil && !states[f.(State)] {
			return nil, invalid("state %q", taskcatalog.Clean(string(b), 100))
		}
		return f, err
	case KindData:
		f := Data{be.Uint64(b), b[offset:]}
		if f.Offset > maxOffset {
			return nil, invalid("offset %d", f.Offset)
		}
		return f, nil
	case KindAck:
		f := Ack{be.Uint64(b), be.Uint64(b[8:])}
		if f.Limit > maxOffset || f.Taken > f.Limit {
			return nil, invalid("acknowledges %d of %d", f.Taken, f.Limit)
		}
		return f, nil
	case KindEOF:
		if f := (EOF{be.Uint64(b)}); f.Offset <= maxOffset {
			return f, nil
		}
		return nil, invalid("an end beyond all ends")
	case KindResize:
		f := Resize{be.Uint16(b), be.Uint16(b[2:])}
		if f.Columns == 0 || f.Rows == 0 || f.Columns > maxSide || f.Rows > maxSide {
			return nil, invalid("a terminal of %d by %d", f.Columns, f.Rows)
		}
		return f, nil
	case KindSignal:
		if f := (Signal{string(b)}); signals[f.Name] {
			return f, nil
		}
		return nil, invalid("signal %q", taskcatalog.Clean(string(b), maxSignal))
	case KindExit:
		f := Exit{int32(be.Uint32(b)), string(b[4:])}
		if f.Status < 0 || f.Status > 255 || !upper(f.Signal) {
			return nil, invalid("status %d, signal %q", f.Status, taskcatalog.Clean(f.Signal, maxSignal))
		}
		return f, nil
	case KindPing:
		return Ping{be.Uint64(b)}, nil
	}
	return Pong{be.Uint64(b)}, nil
}

const (
	// maxOffset leaves room for additions without overflow.
	maxOffset = 1 << 62
	maxSide   = 4096 // characters of a terminal, either way
)

// signals are the permitted signals of an operator.
var signals = map[string]bool{
	"HUP": true, "INT": true, "QUIT": true, "TERM": true, "KILL": true, "USR1": true, "USR2": true, "CONT": true,
	"TSTP": true,
}

// upper reports whether a signal's name is empty or consists of capitals, digits and signs.
func upper(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '+' && c != '-' {
			return false
		}
	}
	return true
}

func parseJSON[T Frame](b []byte) (Frame, error) {
	var f T
	if !utf8.Valid(b) {
		return nil, invalid("text that is not UTF-8")
	}
	if err := taskcatalog.DecodeStrict(b, &f); err != nil {
		return nil, invalid("%v", err)
	}
	return f, nil
}

// CodeInvalid is the code for bytes that are not a frame of this protocol.
const CodeInvalid taskcatalog.Code = "frame_invalid"

func invalid(format string, args ...any) error {
	return taskcatalog.Errorf(CodeInvalid, "not a frame: %s", fmt.Sprintf(format, args...))
}
