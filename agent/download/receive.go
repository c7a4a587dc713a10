package download

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

const (
	bufferBytes = 64 << 10
	buffers     = 16
	// A checkpoint is saved after this much, or after this time if anything came.
	saveBytes = 32 << 20
	saveEvery = 10 * time.Second
)

// open goes on from the checkpoint, or begins anew if it is not of this content in this file.
func (p *Pull) open() error {
	saved, err := p.Checkpoint.Load()
	if err != nil {
		return err
	}
	info, err := p.File.Stat()
	if err != nil {
		return err
	}
	st, sum, ok := resume(saved, p.Digest, info)
	if !ok {
		p.st = state{Digest: p.Digest, Inode: inode(info), Total: -1}
		p.hash = sha256.New()
		return p.empty()
	}
	p.st, p.hash, p.saved, p.savedAt = st, sum, st.Offset, p.Now()
	return p.File.Truncate(st.Offset)
}

// empty begins anew. The checkpoint is saved first: the present one is of bytes that go.
func (p *Pull) empty() error {
	p.hash.Reset()
	p.st.Offset, p.st.Total, p.st.Validator, p.st.Answers = 0, -1, "", 0
	if err := p.save(); err != nil {
		return Lasting(err)
	}
	if err := p.File.Truncate(0); err != nil {
		return Lasting(err)
	}
	return nil
}

// chunk is a part of a body that was read, with the error that ended it.
type chunk struct {
	data []byte
	err  error
}

// receive appends the body of an answer to the file. One goroutine reads from the network while this
// one hashes and writes.
func (p *Pull) receive(ctx context.Context, resp *http.Response, next piece) error {
	most := p.Most - p.st.Offset + 1 // one more than permitted shows that there is more
	if next.most >= 0 {
		most = min(most, next.most)
	}
	free, full := make(chan []byte, buffers), make(chan chunk, buffers)
	for range buffers {
		free <- make([]byte, bufferBytes)
	}
	go p.read(io.LimitReader(resp.Body, most), free, full)
	var ended error
	for c := range full {
		if err := p.take(c.data); err != nil {
			ended = err
			_ = resp.Body.Close()
			break
		}
		if c.err != nil {
			ended = c.err
			break
		}
		free <- c.data[:cap(c.data)]
	}
	close(free)
	for range full { // the reader has ended when the channel is closed
	}
	switch {
	case errors.Is(ended, io.EOF):
		if p.st.Offset > p.Most {
			return taskcatalog.Errorf(taskcatalog.CodeArtifactTooBig, "the source has more than the %d bytes that the plan permits", p.Most)
		}
		if p.st.Total < 0 && next.most < 0 {
			p.st.Total = p.st.Offset
		}
		if p.st.Offset != p.st.Total {
			return errShort
		}
		return nil
	case errors.As(ended, new(lasting)):
		return ended
	}
	return p.cause(ctx, ended)
}

// read fills buffers until the body ends.
func (p *Pull) read(body io.Reader, free <-chan []byte, full chan<- chunk) {
	defer close(full)
	for buf := range free {
		n := 0
		for n < len(buf) {
			p.reading.Store(true)
			k, err := body.Read(buf[n:])
			p.reading.Store(false)
			n += k
			p.received.Add(int64(k))
			if err != nil {
				full <- chunk{buf[:n], err}
				return
			}
		}
		full <- chunk{buf, nil}
	}
}

// take appends bytes, and begins a save when enough have come since the last.
func (p *Pull) take(data []byte) error {
	if _, err := p.File.WriteAt(data, p.st.Offset); err != nil {
		return Lasting(err)
	}
	p.hash.Write(data)
	p.st.Offset += int64(len(data))
	p.Progress(p.st.Offset, p.st.Total)
	if p.saving != nil {
		select {
		case err := <-p.saving:
			p.saving = nil
			if err != nil {
				return Lasting(err)
			}
		default:
			return nil
		}
	}
	now := p.Now()
	if p.st.Offset-p.saved < saveBytes && now.Sub(p.savedAt) < saveEvery {
		return nil
	}
	raw, err := p.encode()
	if err != nil {
		return Lasting(err)
	}
	done := make(chan error, 1)
	p.saving, p.saved, p.savedAt = done, p.st.Offset, now
	go func() {
		err := p.File.Sync()
		if err == nil {
			err = p.Checkpoint.Save(raw)
		}
		done <- err
	}()
	return nil
}

// settle waits for the save in progress, and saves what came after it.
func (p *Pull) settle() error {
	if p.saving != nil {
		err := <-p.saving
		if p.saving = nil; err != nil {
			return Lasting(err)
		}
	}
	if p.saved == p.st.Offset {
		return nil
	}
	if err := p.File.Sync(); err != nil {
		return Lasting(err)
	}
	if err := p.save(); err != nil {
		return Lasting(err)
	}
	return nil
}

func (p *Pull) save() error {
	raw, err := p.encode()
	if err != nil {
		return err
	}
	if err := p.Checkpoint.Save(raw); err != nil {
		return err
	}
	p.saved, p.savedAt = p.st.Offset, p.Now()
	return nil
}

func (p *Pull) encode() ([]byte, error) {
	st := p.st
	var err error
	if st.Hash, err = p.hash.(encoding.BinaryMarshaler).MarshalBinary(); err != nil {
		return nil, err
	}
	return json.Marshal(st)
}

func trimTag(tag string) string {
	return strings.ToLower(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`))
}

func isHex(s string) bool { _, err := hex.DecodeString(s); return err == nil }
