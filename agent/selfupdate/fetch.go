package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/hostler/hostler/agent/uplink"
	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Source provides the parts of a release. Its content is untrusted.
type Source interface {
	// Open reads a part from an offset on. An error of code release_source_refused is
	// not tried again.
	Open(ctx context.Context, part release.Part, offset int64) (io.ReadCloser, error)
}

// Limits on retries and on slowness. A registry may be unreachable for a while.
const (
	patience      = 10 * time.Minute
	pace          = 30 * time.Second
	paceBytes     = 64 << 10
	maxRetryPause = time.Minute // between two tries
)

var errSlow = fmt.Errorf("the sender sent less than %d bytes in %s", paceBytes, pace)

// fetcher fetches the parts of a single release.
type fetcher struct {
	source   Source
	now      func() time.Time
	progress func(done, of int64)
	fetched  int64
	retries  int
}

// small fetches a part into memory. It reads at most the part's size.
func (f *fetcher) small(ctx context.Context, part release.Part) (raw []byte, err error) {
	err = f.fetchWithRetry(ctx, func(ctx context.Context) (bool, error) {
		body, err := f.source.Open(ctx, part, 0)
		if err != nil {
			return false, err
		}
		defer func() { _ = body.Close() }()
		raw, err = io.ReadAll(io.LimitReader(body, part.Size))
		f.fetched += int64(len(raw))
		if err == nil && int64(len(raw)) < part.Size {
			err = io.ErrUnexpectedEOF
		}
		return false, err
	})
	return raw, err
}

// large fetches a part into a file and resumes where an earlier try, or an earlier task, stopped.
// It reads at most the part's size from the source. The caller verifies the digest.
func (f *fetcher) large(ctx context.Context, d *disk, part release.Part, name string) error {
	return f.fetchWithRetry(ctx, func(ctx context.Context) (moved bool, err error) {
		if err := d.step("fetch " + name); err != nil {
			return false, permanentError{err}
		}
		file, err := d.lib.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			return false, permanentError{err}
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		info, err := file.Stat()
		if err != nil {
			return false, permanentError{err}
		}
		at := info.Size()
		if at > part.Size {
			if err := file.Truncate(0); err != nil {
				return false, permanentError{err}
			}
			at = 0
		}
		if at < part.Size {
			body, err := f.source.Open(ctx, part, at)
			if err != nil {
				return false, err
			}
			n, err := f.copy(ctx, file, body, at, part.Size)
			f.fetched += n
			if err = errors.Join(err, body.Close()); err != nil {
				return n > paceBytes, err
			}
			if at+n < part.Size {
				return n > paceBytes, io.ErrUnexpectedEOF
			}
		}
		if err := errors.Join(d.step("sync "+name), file.Sync()); err != nil {
			return true, permanentError{err}
		}
		return true, nil
	})
}

// permanentError is an error that no further try mends.
type permanentError struct{ error }

func (l permanentError) Unwrap() error { return l.error }

// copy appends the received bytes to the file, up to the size.
func (f *fetcher) copy(ctx context.Context, to *os.File, from io.Reader, at, size int64) (n int64, err error) {
	buf := make([]byte, 128<<10)
	for n < size-at {
		k, err := from.Read(buf[:min(int64(len(buf)), size-at-n)])
		if k > 0 {
			if _, err := to.Write(buf[:k]); err != nil {
				return n, permanentError{err}
			}
			n += int64(k)
			f.progress(at+n, size)
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return n, err
		}
	}
	return n, nil
}

// fetchWithRetry retries until try succeeds, ctx ends, the source refuses, or no byte has arrived
// for the time of patience.
func (f *fetcher) fetchWithRetry(ctx context.Context, try func(context.Context) (moved bool, err error)) error {
	return retry(ctx, f.now, &f.retries, func(ctx context.Context) (bool, error) { return f.withPace(ctx, try) })
}

// retry is the retry loop of all that an update needs from the network.
func retry(ctx context.Context, now func() time.Time, retries *int, try func(context.Context) (moved bool, err error)) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = time.Second, maxRetryPause
	since := now()
	for {
		moved, err := try(ctx)
		var stays permanentError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &stays):
			return stays.error
		case taskcatalog.CodeOf(err, "") == CodeSourceRefused:
			return err
		}
		if moved {
			since = now()
			pause.Reset()
		}
		if now().Sub(since) >= patience {
			return taskcatalog.Errorf(CodeSource,
				"cannot fetch the release: no data arrived for %s: %v (the node keeps what it received for the next task)", patience, err)
		}
		*retries++
		after := pause.NextBackOff()
		if r, ok := uplink.RefusalOf(err); ok {
			after = max(after, r.RetryAfter)
		}
		wait := time.NewTimer(after)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		}
	}
}

// withPace ends a try that is slower than paceBytes in pace: a source that keeps the connection
// open and sends almost nothing would block the node for ever.
func (f *fetcher) withPace(ctx context.Context, try func(context.Context) (bool, error)) (bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	seen := make(chan int64, 1)
	progress := f.progress
	defer func() { f.progress = progress }()
	f.progress = func(n, of int64) {
		select {
		case <-seen:
		default:
		}
		seen <- n
		progress(n, of)
	}
	go func() {
		beat := time.NewTicker(pace)
		defer beat.Stop()
		var last, now int64
		for {
			select {
			case <-done:
				return
			case <-beat.C:
				select {
				case now = <-seen:
				default:
				}
				if now-last < paceBytes {
					cancel(errSlow)
					return
				}
				last = now
			}
		}
	}()
	moved, err := try(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		err = errSlow
	}
	return moved, err
}
