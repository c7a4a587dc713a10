package machine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of a kernel table that a tenant can make long. A table has at most maxLines lines, more
// than the kernel has room for in any table.
const (
	lineBuffer = 64 << 10
	maxLines   = 4 << 20
	// maxField bounds the kept bytes of one field of a line: a path that the kernel resolves has
	// less than PATH_MAX bytes, some of them escaped.
	maxField = 8 << 10
)

// lines reads a system file line by line. Only one line is in memory at a time, with each field cut
// to maxField; a single space separates fields. An entry that a tenant made long is cut, and the
// rest of the table is still read.
func (m *Machine) lines(name string, each func(line []byte) error) error {
	f, err := m.OpenFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return readLines(f, name, each)
}

func readLines(from io.Reader, name string, each func(line []byte) error) error {
	r := bufio.NewReaderSize(from, lineBuffer)
	var line []byte
	for count := 0; ; {
		piece, err := r.ReadSlice('\n')
		line = appendCut(line, bytes.TrimSuffix(piece, []byte("\n")))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err != nil && len(line) == 0:
			return nil
		}
		if count++; count > maxLines {
			return fmt.Errorf("%s has more than %d lines", name, maxLines)
		}
		if failed := each(line); failed != nil || err != nil {
			return failed
		}
		line = line[:0]
	}
}

// appendCut appends a piece of a line and drops the bytes of a field beyond maxField. An escape of
// the kernel, such as \040, is kept whole or not at all.
func appendCut(line, piece []byte) []byte {
	for {
		last := bytes.LastIndexByte(line, ' ') + 1
		field, rest, more := bytes.Cut(piece, []byte(" "))
		if room := maxField - (len(line) - last); len(field) <= room {
			line = append(line, field...)
		} else {
			line = append(line, field[:room]...)
			tail := line[len(line)-len(`\040`)+1:]
			if at := bytes.IndexByte(tail, '\\'); at >= 0 {
				copy(tail[at:], "___")
			}
		}
		if !more {
			return line
		}
		line, piece = append(line, ' '), rest
	}
}
