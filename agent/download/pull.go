package download

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hostler/hostler/taskcatalog"
)

// Limits on retries and on slowness. A source may be unreachable for a while.
const (
	patience      = 10 * time.Minute // without enough bytes to count
	pace          = 30 * time.Second
	paceBytes     = 64 << 10
	maxRetryPause = time.Minute
)

// File receives the content. Nobody else writes it.
type File interface {
	io.WriterAt
	Stat() (fs.FileInfo, error)
	Truncate(size int64) error
	Sync() error
}

// Pull brings the content of one digest into a file.
type Pull struct {
	// Request makes the next request for the whole content, with ctx. fresh: the source refused the credential of
	// the request before. Its errors are Lasting or Waiting.
	Request func(ctx context.Context, fresh bool) (*http.Request, error)
	Do      func(*http.Request) (*http.Response, error)
	Digest  string // sha256:…
	Size    int64  // of the content; 0: not known
	Most    int64  // bytes that may be received
	// Room returns how many bytes the file may still grow.
	Room       func() (int64, error)
	File       File
	Checkpoint Checkpoint
	Progress   func(done, of int64) // of: -1 if not known
	Now        func() time.Time

	st       state
	hash     hash.Hash
	saving   chan error // of a save in progress; nil: none
	saved    int64      // the offset of the last save
	savedAt  time.Time
	whole    bool // the next request asks for no range
	received atomic.Int64
	reading  atomic.Bool
}

// Waiting marks an error of Request that a later try may mend, whatever its code.
func Waiting(err error) error { return waiting{err} }

type waiting struct{ error }

// Lasting marks an error of Request that no further try mends.
func Lasting(err error) error { return lasting{err} }

type lasting struct{ error }

func (l lasting) Unwrap() error { return l.error }

// Run returns the length of the content once the file has it, whole and on the disk. An error is a
// *taskcatalog.Error, or any other error, after which a later Run goes on from the checkpoint.
func (p *Pull) Run(ctx context.Context) (int64, error) {
	if err := p.open(); err != nil {
		return 0, err
	}
	if err := p.fetch(ctx); err != nil {
		return 0, err
	}
	if p.digest() != p.Digest && p.st.Answers > 1 {
		// The source may have changed between two answers, and named no version of its content.
		if err := p.empty(); err != nil {
			return 0, err
		}
		if err := p.fetch(ctx); err != nil {
			return 0, err
		}
	}
	if got := p.digest(); got != p.Digest {
		_ = p.Checkpoint.Save([]byte("{}")) // the file is of no use, whatever the checkpoint says
		return 0, taskcatalog.Errorf(taskcatalog.CodeDigestMismatch,
			"the source has other content: %d bytes with the digest %s, and the plan names %s", p.st.Offset, got, p.Digest)
	}
	return p.st.Offset, nil
}

// digest is of what the file has.
func (p *Pull) digest() string { return fmt.Sprintf("sha256:%x", p.hash.Sum(nil)) }

// fetch repeats try until the content is there.
func (p *Pull) fetch(ctx context.Context) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = time.Second, maxRetryPause
	since, refusals, anew := p.Now(), 0, 0
	for fresh := false; ; {
		before := p.received.Load()
		err := p.try(ctx, fresh)
		fresh = false
		if err = errors.Join(err, p.settle()); err == nil {
			return nil
		}
		if p.received.Load()-before >= paceBytes {
			since, refusals, anew = p.Now(), 0, 0
			pause.Reset()
		}
		var after time.Duration
		var stays lasting
		var wait *busy
		switch refused := taskcatalog.CodeOf(err, ""); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &stays):
			return stays.error
		case refused != "":
			return err
		case errors.Is(err, errRefused):
			if refusals++; refusals > 1 {
				return taskcatalog.Errorf(taskcatalog.CodeSourceRefused,
					"the source refuses the request, with a fresh credential as well (does the account read it?)")
			}
			fresh = true
			continue
		case errors.Is(err, errRange) && !p.whole:
			p.whole = true
			continue
		case errors.Is(err, errAnew) && anew == 0:
			anew++
			continue
		case errors.As(err, &wait):
			after = wait.after
		}
		if p.Now().Sub(since) >= patience {
			return fmt.Errorf("no data arrived for %s: %w (the node keeps what it received for the next attempt)", patience, err)
		}
		if err := sleep(ctx, max(after, pause.NextBackOff())); err != nil {
			return err
		}
	}
}

// try sends one request and receives its answer.
func (p *Pull) try(ctx context.Context, fresh bool) error {
	if p.st.Offset > 0 && p.st.Offset == p.st.Total {
		return nil // the machine stopped after the last byte
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := p.Request(ctx, fresh)
	if err != nil {
		return err
	}
	go p.keepPace(ctx, cancel)
	if req.Header.Get("Accept-Encoding") == "" {
		req.Header.Set("Accept-Encoding", "identity")
	}
	if p.st.Offset > 0 && !p.whole {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.st.Offset))
		if p.st.Validator != "" {
			req.Header.Set("If-Range", p.st.Validator)
		}
	}
	p.reading.Store(true)
	resp, err := p.Do(req)
	p.reading.Store(false)
	if err != nil {
		return p.cause(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := p.announced(resp); err != nil {
		return err
	}
	next, err := judge(resp, p.st, p.Now())
	switch {
	case errors.Is(err, errWhole):
		return nil
	case errors.Is(err, errAnew):
		return errors.Join(err, p.empty())
	case err != nil:
		return err
	}
	if next.from == 0 {
		if p.st.Offset > 0 {
			if err := p.empty(); err != nil {
				return err
			}
		}
		p.st.Total, p.st.Validator, p.whole = next.total, validatorOf(resp.Header), false
	}
	if err := p.fits(next.total); err != nil {
		return err
	}
	p.st.Answers++
	return p.receive(ctx, resp, next)
}

// cause says why an exchange ended.
func (p *Pull) cause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSlow) {
		return errSlow
	}
	return Masked(err)
}

// fits refuses a length before the content is received.
func (p *Pull) fits(total int64) error {
	switch {
	case total > p.Most:
		return taskcatalog.Errorf(taskcatalog.CodeArtifactTooBig, "the source has %d bytes, and the plan permits %d", total, p.Most)
	case p.Size > 0 && total >= 0 && total != p.Size:
		return taskcatalog.Errorf(taskcatalog.CodeDigestMismatch, "the source has %d bytes, and the content has %d", total, p.Size)
	}
	room, err := p.Room()
	if missing := max(total-p.st.Offset, 0); err == nil && missing > room {
		err = taskcatalog.Errorf(taskcatalog.CodeDiskFull,
			"cannot receive %d bytes or more: the file system has room for %d (free space on the node, and retry)", missing, max(room, 0))
	}
	if err != nil {
		return Lasting(err)
	}
	return nil
}

// announced compares the digest that Hugging Face names in its redirect. So a wrong file of many
// gigabytes is not received first.
func (p *Pull) announced(resp *http.Response) error {
	for r := resp.Request.Response; r != nil; r = r.Request.Response {
		tag := trimTag(r.Header.Get("X-Linked-Etag"))
		if len(tag) == 64 && "sha256:"+tag != p.Digest && isHex(tag) {
			return taskcatalog.Errorf(taskcatalog.CodeDigestMismatch, "the source has other content: it says that the digest is sha256:%s", tag)
		}
	}
	return nil
}

// keepPace ends an exchange that brings less than paceBytes in pace.
func (p *Pull) keepPace(ctx context.Context, cancel context.CancelCauseFunc) {
	beat := time.NewTicker(pace)
	defer beat.Stop()
	last := p.received.Load()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			now := p.received.Load()
			if now-last < paceBytes && p.reading.Load() { // otherwise this node's disk is slow
				cancel(errSlow)
				return
			}
			last = now
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
