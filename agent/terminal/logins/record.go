package logins

import (
	"encoding/binary"
	"runtime"
	"strings"
	"time"
)

// Login is a program in a terminal, with its user.
type Login struct {
	TTY  string `json:"tty"` // the terminal's file
	PID  int    `json:"pid"`
	User string `json:"user"`
	From string `json:"from"`
}

// Types of a record, as in utmp(5).
const (
	initProcess = 5
	userProcess = 7
	deadProcess = 8
)

// form has the offsets of a record's fields in the C library, in bytes. The fields before the
// session are at the same offsets everywhere.
type form struct{ seconds, micros, wide, size int }

const (
	typeAt = 0
	pidAt  = 4
	lineAt = 8
	idAt   = 40
	userAt = 44
	hostAt = 76
	exitAt = 332
)

// forms are by architecture: times have 32 bits if there was a 32-bit library before.
var forms = map[string]form{
	"amd64": {seconds: 340, micros: 344, wide: 4, size: 384},
	"arm64": {seconds: 344, micros: 352, wide: 8, size: 400},
}

func formHere() (form, bool) {
	f, ok := forms[runtime.GOARCH]
	return f, ok
}

// line is the terminal's name in records, and id the key of its record in utmp.
func (l Login) line() string { return strings.TrimPrefix(l.TTY, "/dev/") }

func (l Login) id() string {
	line := l.line()
	return line[max(0, len(line)-4):]
}

// encode returns the record of a login, or of its end, which names no user.
func (f form) encode(l Login, at time.Time, ended bool) []byte {
	raw := make([]byte, f.size)
	text := func(at, size int, s string) { copy(raw[at:at+size], s) }
	order := binary.NativeEndian
	kind := uint16(userProcess)
	if ended {
		kind = deadProcess
	} else {
		text(userAt, 32, l.User)
		text(hostAt, 256, l.From)
	}
	order.PutUint16(raw[typeAt:], kind)
	order.PutUint32(raw[pidAt:], uint32(l.PID))
	text(lineAt, 32, l.line())
	text(idAt, 4, l.id())
	if f.wide == 8 {
		order.PutUint64(raw[f.seconds:], uint64(at.Unix()))
		order.PutUint64(raw[f.micros:], uint64(at.Nanosecond()/1000))
	} else {
		order.PutUint32(raw[f.seconds:], uint32(at.Unix()))
		order.PutUint32(raw[f.micros:], uint32(at.Nanosecond()/1000))
	}
	return raw
}

// matches reports whether a record of utmp belongs to the terminal of l.
func matches(raw []byte, l Login) bool {
	kind := binary.NativeEndian.Uint16(raw[typeAt:])
	return kind >= initProcess && kind <= deadProcess && text(raw[idAt:idAt+4]) == l.id()
}

// pid returns the process of a record.
func pid(raw []byte) int { return int(int32(binary.NativeEndian.Uint32(raw[pidAt:]))) }

func text(raw []byte) string {
	s, _, _ := strings.Cut(string(raw), "\x00")
	return s
}
