package erase

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/hostler/hostler/taskcatalog"
)

// cutOff is a lab whose first disk was overwritten up to its second stride by a canceled task, with
// the disk's record.
func cutOff(t *testing.T) (*lab, *notes) {
	t.Helper()
	l := newLab(t)
	l.nvme("nvme0", play{})
	kept := l.Overwrites.(*notes)
	ctx, cancel := context.WithCancelCause(t.Context())
	l.change = func(f *file) {
		kept.noted = func(o Overwrite) {
			if f.unsynced.Load() {
				t.Errorf("%d bytes are noted before they are flushed", o.Written)
			}
			cancel(taskcatalog.Errorf(taskcatalog.CodeCanceled, "an operator canceled it"))
		}
	}
	res, _, err := l.do(ctx)
	if d := res.Disks[0]; err == nil || d.Verdict != taskcatalog.VerdictNotClean || d.Method != taskcatalog.MethodNone || len(kept.all) != 1 {
		t.Fatalf("%v: %+v, %d notes", err, d, len(kept.all))
	}
	kept.noted, l.change = nil, nil
	return l, kept
}

// again runs the task once more, and returns the offsets of its writes.
func again(l *lab, fault func(f *file)) (row taskcatalog.ErasedDisk, wrote []int64) {
	l.t.Helper()
	var mu sync.Mutex
	l.change = func(f *file) {
		if fault != nil {
			fault(f)
		}
		f.write = func(_ []byte, at int64) error {
			mu.Lock()
			defer mu.Unlock()
			wrote = append(wrote, at)
			return nil
		}
	}
	row = l.good().Disks[0]
	slices.Sort(wrote)
	return row, wrote
}

func TestAnOverwriteThatWasCutOffGoesOnAndIsReadWhole(t *testing.T) {
	t.Parallel()
	l, kept := cutOff(t)
	d, wrote := again(l, nil)
	if !slices.Equal(wrote, []int64{chunk, 2 * chunk}) {
		t.Errorf("wrote at %d", wrote)
	}
	if d.Method != taskcatalog.MethodOverwrite || d.Verification != taskcatalog.OverwriteVerified || d.CoveredBytes != labSize || d.ReadBackBytes != labSize || d.Message == "" || d.Code != "" || l.holds("nvme0n1") {
		t.Errorf("%+v", d)
	}
	if len(kept.all) > 0 {
		t.Errorf("it is still noted: %+v", kept.all)
	}
	if _, wrote := again(l, nil); !slices.Equal(wrote, []int64{0, chunk, 2 * chunk}) {
		t.Errorf("the next erase wrote at %d", wrote)
	}
}

// A task that ends early has finished some of its disks.
func TestADiskThatWasOverwrittenIsOnlyReadByTheNextTask(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{})
	l.nvme("nvme1", play{})
	kept := l.Overwrites.(*notes)
	ctx, cancel := context.WithCancelCause(t.Context())
	first := make(chan struct{})
	l.Progress = func(step string, _, _, percent int, _ string) {
		if step == "disk nvme0n1" && percent == 100 {
			close(first)
		}
	}
	l.change = func(f *file) {
		if f.name == "nvme1n1" {
			f.write = func([]byte, int64) error {
				<-first
				cancel(taskcatalog.Errorf(taskcatalog.CodeCanceled, "an operator canceled it"))
				return nil
			}
		}
	}
	if res, _, err := l.do(ctx); err == nil || res.Disks[1].Verdict != taskcatalog.VerdictNotClean || len(kept.all) == 0 {
		t.Fatalf("%v: %+v, %d notes", err, res.Disks, len(kept.all))
	}
	l.Progress = nil
	l.change = func(f *file) {
		if f.name == "nvme0n1" {
			f.write = func(_ []byte, at int64) error {
				t.Errorf("wrote at %d", at)
				return nil
			}
		}
	}
	for _, d := range l.good().Disks {
		if d.Verification != taskcatalog.OverwriteVerified || d.ReadBackBytes != labSize || l.holds(d.Name) {
			t.Errorf("%+v", d)
		}
	}
	if len(kept.all) > 0 {
		t.Errorf("still noted: %+v", kept.all)
	}
}

// Whatever is recorded, a disk is clean only if all of it was overwritten.
func TestAnOverwriteIsNotContinuedOverWhatSomebodyLeftSince(t *testing.T) {
	t.Parallel()
	all := []int64{0, chunk, 2 * chunk}
	writes := func(text string, at int64) func(l *lab, _ *notes) {
		return func(l *lab, _ *notes) {
			f, err := os.OpenFile(filepath.Join(l.root, "dev/nvme0n1"), os.O_WRONLY, 0)
			l.ok(err)
			_, err = f.WriteAt(bytes.Repeat([]byte(text), 1000), at)
			l.ok(errors.Join(err, f.Close()))
		}
	}
	noted := func(change func(o *Overwrite)) func(*lab, *notes) {
		return func(_ *lab, kept *notes) {
			for disk, o := range kept.all {
				change(&o)
				kept.all[disk] = o
			}
		}
	}
	for name, meanwhile := range map[string]func(l *lab, kept *notes){
		"a tenant had it":         writes("the tenant's data, ", 0),
		"a tenant had all of it":  func(l *lab, _ *notes) { l.put("dev/nvme0n1", string(bytes.Repeat([]byte("tenant's"), labSize/8))) },
		"another key":             noted(func(o *Overwrite) { o.Key = make([]byte, 32) }),
		"no key":                  noted(func(o *Overwrite) { o.Key = nil }),
		"more than was written":   noted(func(o *Overwrite) { o.Written = labSize }),
		"more than the disk":      noted(func(o *Overwrite) { o.Written = labSize + chunk }),
		"less than nothing":       noted(func(o *Overwrite) { o.Written = -chunk }),
		"a part of a chunk":       noted(func(o *Overwrite) { o.Written = 4096 }),
		"what cannot be read":     func(_ *lab, kept *notes) { kept.fails = errors.New("the ledger is damaged") },
		"another disk, same name": func(l *lab, _ *notes) { l.another() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, kept := cutOff(t)
			meanwhile(l, kept)
			d, wrote := again(l, nil)
			if !slices.Equal(wrote, all) || d.Verification != taskcatalog.OverwriteVerified || d.ReadBackBytes != labSize || d.Message != "" || l.holds("nvme0n1") {
				t.Errorf("wrote at %d: %+v", wrote, d)
			}
		})
	}
}

// another replaces the first drive by another drive with the same content.
func (l *lab) another() {
	l.t.Helper()
	l.put("sys/class/nvme/nvme0/serial", "other\n")
	l.becomes("nvme0", func(p *play) { p.Serial = "other" })
	l.Params.Disks[0].Serial = "other"
}

// Foreign data outside the samples is found by the full read-back, and then the whole disk is
// overwritten.
func TestWhatIsFoundOnlyWhenAllIsReadIsOverwritten(t *testing.T) {
	t.Parallel()
	l, _ := cutOff(t)
	var once sync.Once
	d, wrote := again(l, func(f *file) {
		f.read = func(b []byte, at int64) error {
			if len(b) == chunk && at == 0 {
				once.Do(func() { b[chunk/2] ^= 1 })
			}
			return nil
		}
	})
	if !slices.Equal(wrote, []int64{0, chunk, chunk, 2 * chunk, 2 * chunk}) || d.Verification != taskcatalog.OverwriteVerified || d.Message != "" {
		t.Errorf("wrote at %d: %+v", wrote, d)
	}
}

// Planting blocks for a drive's own erase ends an interrupted overwrite of this drive; and a failed
// overwrite is not resumed.
func TestWhatEndedOtherwiseIsNotRemembered(t *testing.T) {
	t.Parallel()
	l, kept := cutOff(t)
	l.becomes("nvme0", func(p *play) { p.OACS = formats })
	if d, _ := again(l, nil); d.Method != taskcatalog.MethodNVMeFormatErase || len(kept.all) > 0 {
		t.Errorf("%+v, %d notes", d, len(kept.all))
	}
	l, kept = cutOff(t)
	l.change = func(f *file) { f.write = func([]byte, int64) error { return errors.New("input/output error") } }
	if res, _, err := l.do(t.Context()); err == nil || res.Disks[0].Verdict != taskcatalog.VerdictNotClean || len(kept.all) > 0 {
		t.Errorf("%v, %d notes", err, len(kept.all))
	}
}
