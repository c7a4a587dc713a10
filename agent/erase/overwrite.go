package erase

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
)

const (
	chunk   = 4 << 20
	writers = 4 // chunks in flight to a disk at a time
)

// sweep calls do for every chunk between two offsets, several at a time, with two buffers of the
// chunk's length. It returns how many bytes were done, and the first error, which ends the sweep.
func sweep(ctx context.Context, from, to int64, do func(b, spare []byte, offset int64) error, progress func(done int64)) (int64, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, done atomic.Int64
	next.Store(from)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			b, free, err := aligned(2 * chunk)
			if err != nil {
				stop(err)
				return
			}
			defer free()
			for ctx.Err() == nil {
				offset := next.Add(chunk) - chunk
				if offset >= to {
					return
				}
				length := min(chunk, to-offset)
				if err := do(b[:length], b[chunk:chunk+length], offset); err != nil {
					stop(err)
					return
				}
				progress(done.Add(length))
			}
		})
	}
	all.Wait()
	return done.Load(), context.Cause(ctx)
}

// overwrite writes a pattern to the whole device and reads all of it back. An interrupted overwrite
// is resumed where it stopped, and read back as a whole.
func (e *Erase) overwrite(ctx context.Context, t *target) error {
	o, err := e.resume(t)
	if err != nil {
		return err
	}
	before := o.Written
	err = e.fill(ctx, t, o)
	if before > 0 && taskcatalog.CodeOf(err, "") == taskcatalog.CodeEraseResidue {
		e.Log.Warn("a disk was written to after its overwrite was interrupted; the overwrite starts again at the first byte",
			zap.String("disk", t.name), zap.Error(err))
		e.forget(t)
		if o, err = e.begin(); err != nil {
			return err
		}
		before = 0
		err = e.fill(ctx, t, o)
	}
	if err != nil {
		if ctx.Err() == nil { // the part written earlier may be the cause
			e.forget(t)
		}
		return err
	}
	t.finished(taskcatalog.MethodOverwrite, taskcatalog.OverwriteVerified, t.out.ReadBackBytes)
	if before > 0 {
		said := fmt.Sprintf("an interrupted task wrote the first %d bytes; this task read back the whole disk", before)
		t.out.Message = strings.TrimSuffix(said+"; "+t.out.Message, "; ")
	}
	return nil
}

// fill writes the pattern from the recorded progress on, and reads the whole device back.
func (e *Erase) fill(ctx context.Context, t *target, o Overwrite) error {
	p, err := patternOf(o.Key)
	if err != nil {
		return err
	}
	say := func(percent, done int64) {
		e.reportProgress(t, int(percent+done*50/t.size), taskcatalog.MethodOverwrite)
	}
	for o.Written < t.size {
		from, to := o.Written, min(o.Written+e.Stride, t.size)
		done, err := sweep(ctx, from, to, func(b, _ []byte, offset int64) error {
			p.at(b, offset)
			if _, err := t.device.WriteAt(b, offset); err != nil {
				return taskcatalog.Errorf(taskcatalog.CodeDiskWrite, "cannot write at byte %d: %v", offset, err)
			}
			return nil
		}, func(done int64) { say(0, from+done) })
		t.out.CoveredBytes = uint64(from + done)
		if err != nil {
			return err
		}
		if err := t.device.Sync(); err != nil {
			return taskcatalog.Errorf(taskcatalog.CodeDiskWrite, "cannot flush what was written: %v", err)
		}
		o.Written = to
		e.recordOverwrite(t, o)
	}
	t.out.CoveredBytes = uint64(t.size)
	readBack, err := sweep(ctx, 0, t.size, func(b, want []byte, offset int64) error {
		if err := readAt(t.device, b, offset); err != nil {
			return err
		}
		if p.at(want, offset); !bytes.Equal(b, want) {
			return taskcatalog.Errorf(taskcatalog.CodeEraseResidue, "the bytes from %d on are not the bytes that were written", offset)
		}
		return nil
	}, func(done int64) { say(50, done) })
	t.out.ReadBackBytes = uint64(readBack)
	return err
}

// readAt fills b. Reaching the end of the disk with b full is no error.
func readAt(dev Device, b []byte, offset int64) error {
	if n, err := dev.ReadAt(b, offset); err != nil && (n < len(b) || err != io.EOF) {
		return taskcatalog.Errorf(taskcatalog.CodeDiskRead, "cannot read at byte %d: %v", offset, err)
	}
	return nil
}
