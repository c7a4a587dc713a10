package erase

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

// Erase is the execution of a task.
type Erase struct {
	Machine  *machine.Machine
	Devices  Devices
	Commands *command.Runner
	Params   *taskcatalog.DiskEraseParams
	Rand     io.Reader
	Log      *zap.Logger
	// Progress reports a disk's progress: the disk, its index, the total, percent.
	Progress func(step string, index, total, percent int, message string)
	// Interval is the pause between two looks at a sanitizing drive.
	Interval time.Duration
	// Overwrites are the interrupted overwrites. Stride is how many bytes of an overwrite are
	// written between two records of its progress; it is a multiple of 4 MiB.
	Overwrites Overwrites
	Stride     int64

	sys     system
	targets []*target
	mu      sync.Mutex // guards Rand and Progress
}

// target is a disk of the task.
type target struct {
	*disk
	index       int
	device      Device
	lastPercent int // the last percent
	out         taskcatalog.ErasedDisk
}

// Do judges all disks and then erases them. If any disk must not be erased, Do fails with the code
// of this disk and has touched none.
func (e *Erase) Do(ctx context.Context) (*taskcatalog.DiskEraseResult, taskcatalog.Report, error) {
	var report taskcatalog.Report
	e.sys = system{e.Machine}
	defer e.release()
	units, err := e.judge(ctx)
	if err != nil {
		return nil, report, err
	}
	var all sync.WaitGroup
	for _, u := range units {
		all.Go(func() { e.erase(ctx, u) })
	}
	all.Wait()
	result := &taskcatalog.DiskEraseResult{}
	bad := 0
	for _, t := range e.targets {
		if t.out.Verdict != taskcatalog.VerdictClean {
			bad++
		}
		result.Disks = append(result.Disks, t.out)
		report.Dispose(disposition(&t.out))
		if t.out.Method == taskcatalog.MethodOverwrite && ctx.Err() == nil {
			e.forget(t)
		}
	}
	switch {
	case ctx.Err() != nil: // the next task only reads the overwritten disks
		return result, report, context.Cause(ctx)
	case bad > 0:
		return result, report, taskcatalog.Errorf(taskcatalog.CodeDiskNotErased,
			"cannot erase %d of %d disks (repair or replace the disks that the result lists, then run the erase again)", bad,
			len(e.targets))
	}
	return result, report, nil
}

func disposition(d *taskcatalog.ErasedDisk) taskcatalog.Disposition {
	row := taskcatalog.Disposition{Check: "disks", Path: "/dev/" + d.Name, Action: taskcatalog.ActionEmptied, Bytes: int64(d.CoveredBytes)}
	row.Reason = fmt.Sprintf("%s: %s, %s", d.Serial, d.Method, d.Verification)
	if d.Verdict != taskcatalog.VerdictClean {
		row.Action, row.Reason = taskcatalog.ActionFailed, fmt.Sprintf("%s: %s: %s", d.Serial, d.Code, d.Message)
	}
	return row
}

// release closes all disks.
func (e *Erase) release() {
	for _, t := range e.targets {
		if t.device != nil {
			if err := t.device.Close(); err != nil {
				e.Log.Warn("cannot close a disk", zap.String("disk", t.name), zap.Error(err))
			}
			t.device = nil
		}
	}
}

// Read reads the run's random source, under a lock.
func (e *Erase) Read(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return io.ReadFull(e.Rand, b)
}

// reportProgress reports a disk's progress, if it has changed.
func (e *Erase) reportProgress(t *target, percent int, doing taskcatalog.EraseMethod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Progress != nil && percent > t.lastPercent {
		t.lastPercent = percent
		e.Progress("disk "+t.name, t.index+1, len(e.targets), percent, string(doing))
	}
}

// failed records a failed method.
func (t *target) failed(m taskcatalog.EraseMethod, err error) {
	code := taskcatalog.CodeOf(err, taskcatalog.CodeEraseFailed)
	t.out.Attempts = append(t.out.Attempts, taskcatalog.EraseAttempt{
		Method: m, Code: code,
		Message: taskcatalog.Clean(err.Error(), taskcatalog.MaxText),
	})
}

// ended reports whether the disk has a verdict.
func (t *target) ended() bool { return t.out.Verdict != "" }

// end sets the disk's verdict; no further method is tried.
func (t *target) end(verdict taskcatalog.Verdict, err error) {
	t.out.Verdict = verdict
	t.out.Code = taskcatalog.CodeOf(err, taskcatalog.CodeEraseFailed)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.out.Code = taskcatalog.CodeOf(err, taskcatalog.CodeCanceled)
	}
	t.out.Message = taskcatalog.Clean(err.Error(), taskcatalog.MaxText)
}
