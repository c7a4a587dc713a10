package release

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
)

// unpack writes at most most bytes of one gzip stream, and refuses trailing data.
func unpack(w io.Writer, r io.Reader, most int64) (int64, error) {
	b := bufio.NewReader(r) // so that gzip reads nothing past its end
	z, err := gzip.NewReader(b)
	if err != nil {
		return 0, err
	}
	z.Multistream(false)
	n, err := io.Copy(guarded{w}, io.LimitReader(z, most))
	if err != nil {
		return n, err
	}
	if more, err := z.Read(make([]byte, 1)); more > 0 || !errors.Is(err, io.EOF) {
		if err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		return n, errors.New("its program is larger than its statement says")
	}
	if _, err := b.ReadByte(); !errors.Is(err, io.EOF) {
		return n, errors.New("something follows its program")
	}
	return n, nil
}

// writeError is a fault of the destination, not of the program.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

// guarded marks write errors, to distinguish them from read errors.
type guarded struct{ w io.Writer }

func (g guarded) Write(p []byte) (int, error) {
	n, err := g.w.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
