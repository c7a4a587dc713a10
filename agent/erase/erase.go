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

// Erase is one task being carried out.
type Erase struct {
	Machine  *machine.Machine
	Devices  Devices
	Commands *command.Runner
	Params   *taskcatalog.DiskEraseParams
	Rand     io.Reader
	Log      *zap.Logger
	// Progress says how far one disk is: which, of how many, percent.
	Progress func(step string, index, total, percent int, message string)
	// Interval is between two looks at a drive that sanitizes itself.
	Interval time.Duration
	// Overwrites are those that were cut off; Stride is how many bytes of one are
	// written between two notes of how far it came, a multiple of 4 MiB.
	Overwrites Overwrites
	Stride     int64

	sys     system
	targets []*target
	mu      sync.Mutex // guards Rand and Progress
}

// target is a disk of the task.
type target struct {
	*disk
	index  int
	device Device
	said   int // the last percent
	out    taskcatalog.ErasedDisk
}

// Do judges all disks and then erases them. Where any of them may not be erased it
// fails with that code and has touched none.
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
	case ctx.Err() != nil: // what was overwritten is only read by the next task
		return result, report, context.Cause(ctx)
	case bad > 0:
		return result, report, taskcatalog.Errorf(taskcatalog.CodeDiskNotErased, "cannot erase %d of %d disks (see the result; mend or replace them, and run it again)", bad, len(e.targets))
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

// release lets go of all disks.
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

// Read is the run's randomness, for one at a time.
func (e *Erase) Read(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return io.ReadFull(e.Rand, b)
}

// say reports how far a disk is, where that has changed.
func (e *Erase) say(t *target, percent int, doing taskcatalog.EraseMethod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.Progress != nil && percent > t.said {
		t.said = percent
		e.Progress("disk "+t.name, t.index+1, len(e.targets), percent, string(doing))
	}
}

// failed notes a method that was tried and not done.
func (t *target) failed(m taskcatalog.EraseMethod, err error) {
	code := taskcatalog.CodeOf(err, taskcatalog.CodeEraseFailed)
	t.out.Attempts = append(t.out.Attempts, taskcatalog.EraseAttempt{Method: m, Code: code, Message: taskcatalog.Clean(err.Error(), taskcatalog.MaxText)})
}

// ended reports whether it is known what became of the disk.
func (t *target) ended() bool { return t.out.Verdict != "" }

// end is where no further method is tried.
func (t *target) end(verdict taskcatalog.Verdict, err error) {
	t.out.Verdict = verdict
	t.out.Code = taskcatalog.CodeOf(err, taskcatalog.CodeEraseFailed)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		t.out.Code = taskcatalog.CodeOf(err, taskcatalog.CodeCanceled)
	}
	t.out.Message = taskcatalog.Clean(err.Error(), taskcatalog.MaxText)
}
