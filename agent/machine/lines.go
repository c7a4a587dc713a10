package machine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Bounds of a table of the kernel's that a tenant can make long. A table has at
// most maxLines lines, more than the kernel has room for in any of them.
const (
	lineBuffer = 64 << 10
	maxLines   = 4 << 20
	// maxField is what is kept of one field of a line: a path that the kernel
	// resolves has less than PATH_MAX bytes, some of them escaped.
	maxField = 8 << 10
)

// lines reads a system file line by line. One line is in memory at a time, with
// each of its fields, which a single space separates, cut to maxField: an entry
// that a tenant made long costs itself and not the table.
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

// appendCut appends a piece of a line and leaves out what of a field is beyond
// maxField. An escape of the kernel's, such as \040, is kept whole or not at all.
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
