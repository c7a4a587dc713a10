package erase

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
)

const formats = 1 << 1 // of OACS

func sanitizeLine(action int) string {
	line := fmt.Sprintf("nvme sanitize --ause --sanact=%d ", action)
	if action == sanitizeWrite {
		line += "--owpass=1 "
	}
	return line + "/dev/nvme0"
}

const exitLine = "nvme sanitize --sanact=1 /dev/nvme0"

func formatLine(ses int) string {
	return fmt.Sprintf("nvme format --force --timeout=14400000 --ses=%d --lbaf=0 --namespace-id=1 /dev/nvme0", ses)
}

func TestTheBestMethodThatAnNVMeDriveHasIsTaken(t *testing.T) {
	t.Parallel()
	done := []int{sanitizeRunning, sanitizeRunning, sanitizeDone}
	for name, c := range map[string]struct {
		play   play
		method taskcatalog.EraseMethod
		ran    []string
	}{
		"sanitize by blocks":       {play{SANICAP: 7, OACS: formats, Log: done}, taskcatalog.MethodNVMeSanitizeBlock, []string{sanitizeLine(2)}},
		"sanitize by key":          {play{SANICAP: 5, OACS: formats, Log: done}, taskcatalog.MethodNVMeSanitizeCrypt, []string{sanitizeLine(4)}},
		"sanitize by overwriting":  {play{SANICAP: 4, OACS: formats, Log: done}, taskcatalog.MethodNVMeSanitizeWrite, []string{sanitizeLine(3)}},
		"sanitize with a sign bit": {play{SANICAP: -1<<31 | 2, Log: done}, taskcatalog.MethodNVMeSanitizeBlock, []string{sanitizeLine(2)}},
		"completed, deallocated":   {play{SANICAP: 2, Log: []int{sanitizeDoneDeallocated}}, taskcatalog.MethodNVMeSanitizeBlock, []string{sanitizeLine(2)}},
		"format by key":            {play{OACS: formats, FNA: 4}, taskcatalog.MethodNVMeFormatCrypto, []string{formatLine(2)}},
		"format":                   {play{OACS: formats}, taskcatalog.MethodNVMeFormatErase, []string{formatLine(1)}},
		"nothing":                  {play{}, taskcatalog.MethodOverwrite, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.nvme("nvme0", c.play)
			d := l.good().Disks[0]
			if d.Asked != c.method || d.Method != c.method || d.Verdict != taskcatalog.VerdictClean || d.Verification != taskcatalog.OverwriteVerified || len(d.Attempts) > 0 {
				t.Errorf("%+v", d)
			}
			if d.CoveredBytes != labSize || d.OfBytes != labSize || d.ReadBackBytes == 0 || d.Serial != serial+"0" || d.Model != model || d.SizeBytes != labSize {
				t.Errorf("%+v", d)
			}
			if reason, less := d.Downgraded(); less {
				t.Errorf("downgraded: %s", reason)
			}
			if l.holds("nvme0n1") {
				t.Error("the data are still there")
			}
			l.wantRan(c.ran...)
			if last := l.said[len(l.said)-1]; last != "disk nvme0n1 1/1 100 "+string(c.method) {
				t.Errorf("last said: %s", last)
			}
		})
	}
}

func TestWhatWasRefusedOrFailedIsNotHiddenByWhatFollows(t *testing.T) {
	t.Parallel()
	done := []int{sanitizeDone}
	for name, c := range map[string]struct {
		play      play
		method    taskcatalog.EraseMethod
		codes     []taskcatalog.Code
		downgrade bool
		ran       []string
	}{
		"one way to sanitize is refused": {
			play{SANICAP: 3, Refuse: []string{"--sanact=2"}, Log: done},
			taskcatalog.MethodNVMeSanitizeCrypt,
			[]taskcatalog.Code{taskcatalog.CodeEraseRefused},
			false,
			[]string{sanitizeLine(2), sanitizeLine(4)},
		},
		"sanitize is refused": {
			play{SANICAP: 2, OACS: formats, FNA: 4, Refuse: []string{"sanitize --"}},
			taskcatalog.MethodNVMeFormatCrypto,
			[]taskcatalog.Code{taskcatalog.CodeEraseRefused},
			true,
			[]string{sanitizeLine(2), formatLine(2)},
		},
		"sanitize fails": {
			play{SANICAP: 2, OACS: formats, Log: []int{sanitizeRunning, sanitizeFailed}},
			taskcatalog.MethodNVMeFormatErase,
			[]taskcatalog.Code{taskcatalog.CodeEraseFailed},
			true,
			[]string{sanitizeLine(2), exitLine, formatLine(1)},
		},
		"its log knows of none": {
			play{SANICAP: 2, Log: []int{sanitizeNever}},
			taskcatalog.MethodOverwrite,
			[]taskcatalog.Code{taskcatalog.CodeEraseFailed},
			true,
			[]string{sanitizeLine(2)},
		},
		"its log tells of another": {
			play{SANICAP: 2, Log: done, LogAction: 4},
			taskcatalog.MethodOverwrite,
			[]taskcatalog.Code{taskcatalog.CodeEraseFailed},
			true,
			[]string{sanitizeLine(2)},
		},
		"the key is not changed": {
			play{OACS: formats, FNA: 4, Refuse: []string{"--ses=2"}},
			taskcatalog.MethodNVMeFormatErase,
			[]taskcatalog.Code{taskcatalog.CodeEraseRefused},
			true,
			[]string{formatLine(2), formatLine(1)},
		},
		"everything is refused": {
			play{SANICAP: 7, OACS: formats, FNA: 4, Refuse: []string{"sanitize --", "nvme format"}},
			taskcatalog.MethodOverwrite,
			slices.Repeat([]taskcatalog.Code{taskcatalog.CodeEraseRefused}, 5), true,
			[]string{sanitizeLine(2), sanitizeLine(4), sanitizeLine(3), formatLine(2), formatLine(1)},
		},
		"the drive lies": {
			play{SANICAP: 2, OACS: formats, Log: done, Lies: true},
			taskcatalog.MethodOverwrite,
			slices.Repeat([]taskcatalog.Code{taskcatalog.CodeEraseResidue}, 2), true,
			[]string{sanitizeLine(2), formatLine(1)},
		},
		"its format is not known": {
			play{OACS: formats, Garbage: []string{"id-ns"}},
			taskcatalog.MethodOverwrite,
			[]taskcatalog.Code{taskcatalog.CodeEraseRefused},
			true, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.nvme("nvme0", c.play)
			d := l.good().Disks[0]
			var codes []taskcatalog.Code
			for _, a := range d.Attempts {
				codes = append(codes, a.Code)
			}
			if d.Method != c.method || d.Verdict != taskcatalog.VerdictClean || !slices.Equal(codes, c.codes) || d.Attempts[0].Method != d.Asked {
				t.Errorf("%+v", d)
			}
			if reason, less := d.Downgraded(); less != c.downgrade || less && reason == "" {
				t.Errorf("downgraded %v: %q", less, reason)
			}
			if l.holds("nvme0n1") {
				t.Error("the data are still there")
			}
			l.wantRan(c.ran...)
		})
	}
}

func TestTheFormatThatANamespaceHasIsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{OACS: formats, FLBAS: 0x24}) // the upper bits are in another place
	l.good()
	l.wantRan("nvme format --force --timeout=14400000 --ses=1 --lbaf=20 --namespace-id=1 /dev/nvme0")
}

func TestEachNamespaceOfASharedControllerIsErased(t *testing.T) {
	t.Parallel()
	for _, p := range []play{{SANICAP: 2, Log: []int{sanitizeDone}}, {OACS: formats}, {}} {
		l := newLab(t)
		l.nvme("nvme0", p)
		l.namespace("nvme0", 2)
		res := l.good()
		for i, name := range []string{"nvme0n1", "nvme0n2"} {
			if d := res.Disks[i]; d.Name != name || d.Verdict != taskcatalog.VerdictClean || l.holds(name) {
				t.Errorf("%+v", d)
			}
		}
		if ran := l.ran(); p.SANICAP != 0 && len(ran) != 1 || p.OACS != 0 && len(ran) != 2 {
			t.Errorf("ran %q", ran)
		}
	}
}

func TestAQuickEraseIsADiscardAndHasNoGrade(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{SANICAP: 7, OACS: formats})
	l.ata("sda", sataPath, play{Supported: true, Frozen: true})
	l.Params.Mode = taskcatalog.EraseQuick
	for _, d := range l.good().Disks {
		if d.Asked != taskcatalog.MethodTrim || d.Method != taskcatalog.MethodTrim || d.Method.Grade() != taskcatalog.GradeNone || d.Verification != taskcatalog.OverwriteNone {
			t.Errorf("%+v", d)
		}
	}
	got := l.ran()
	slices.Sort(got)
	if !slices.Equal(got, []string{"blkdiscard --force /dev/nvme0n1", "blkdiscard --force /dev/sda"}) {
		t.Errorf("ran %q", got)
	}

	l = newLab(t)
	l.nvme("nvme0", play{Refuse: []string{"blkdiscard"}})
	l.Params.Mode = taskcatalog.EraseQuick
	res, report, err := l.do(t.Context())
	d := res.Disks[0]
	if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskNotErased || d.Verdict != taskcatalog.VerdictNotClean || d.Method != taskcatalog.MethodNone || d.Code != taskcatalog.CodeEraseUnfit {
		t.Errorf("%v: %+v", err, d)
	}
	if report.Dispositions[0].Action != taskcatalog.ActionFailed {
		t.Errorf("%+v", report.Dispositions)
	}
}

func TestATheToolThatIsMissingIsADowngrade(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{SANICAP: 7})
	l.ata("sda", sataPath, play{Supported: true})
	l.ok(os.Remove(filepath.Join(l.root, "usr/sbin/nvme")))
	l.ok(os.Remove(filepath.Join(l.root, "usr/sbin/hdparm")))
	res, _, err := l.do(t.Context())
	if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskNotErased {
		t.Fatal(err)
	}
	// Without hdparm nobody knows whether a disk has a password.
	for i, verdict := range []taskcatalog.Verdict{taskcatalog.VerdictClean, taskcatalog.VerdictInconclusive} {
		d := res.Disks[i]
		reason, less := d.Downgraded()
		if d.Verdict != verdict || l.holds(d.Name) || d.Method != taskcatalog.MethodOverwrite || !less || !strings.Contains(reason, "cannot run /usr/sbin/") || d.Attempts[0].Code != "executable_missing" {
			t.Errorf("%+v", d)
		}
	}
}

func TestASanitizeThatRunsAlreadyIsWaitedFor(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{SANICAP: 4, Before: sanitizeRunning, Log: []int{sanitizeRunning, sanitizeRunning, sanitizeDone}})
	if d := l.good().Disks[0]; d.Method != taskcatalog.MethodNVMeSanitizeWrite {
		t.Errorf("%+v", d)
	}
	l.wantRan(sanitizeLine(3))
}

// If a method may still run inside the drive, no other method follows, and the verdict is
// inconclusive.
func TestWhatMayGoOnInsideADriveIsInconclusive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play play
		ran  int
	}{
		"the log page cannot be read": {play{SANICAP: 7, OACS: formats, Garbage: []string{"sanitize-log"}}, 0},
		"it is canceled":              {play{SANICAP: 7, OACS: formats, Log: []int{sanitizeRunning}}, 1},
		"it is canceled in a format":  {play{OACS: formats, Hang: "nvme format"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.nvme("nvme0", c.play)
			ctx, cancel := context.WithCancelCause(t.Context())
			if strings.HasPrefix(name, "it is canceled") {
				l.Progress = func(_ string, _, _, percent int, _ string) {
					if percent > 0 {
						cancel(taskcatalog.Errorf(taskcatalog.CodeCanceled, "an operator canceled it"))
					}
				}
				go func() {
					for range time.Tick(time.Millisecond) {
						if _, err := os.Stat(filepath.Join(l.root, "play/hangs")); err == nil {
							cancel(taskcatalog.Errorf(taskcatalog.CodeCanceled, "an operator canceled it"))
						}
						if ctx.Err() != nil {
							return
						}
					}
				}()
			}
			res, _, err := l.do(ctx)
			d := res.Disks[0]
			if err == nil || d.Verdict != taskcatalog.VerdictInconclusive || d.Method != taskcatalog.MethodNone || d.Code != taskcatalog.CodeEraseUnfinished {
				t.Errorf("%v: %+v", err, d)
			}
			if ran := l.ran(); len(ran) != c.ran {
				t.Errorf("ran %q", ran)
			}
			cancel(nil)
		})
	}
}

func TestAnOverwriteThatIsNotTheWholeTruthIsNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(f *file)
		code   taskcatalog.Code
	}{
		"a sector cannot be written": {func(f *file) {
			f.write = func(_ []byte, at int64) error {
				if at >= 4<<20 {
					return errors.New("input/output error")
				}
				return nil
			}
		}, taskcatalog.CodeDiskWrite},
		"a sector cannot be read": {func(f *file) { f.read = func([]byte, int64) error { return errors.New("input/output error") } }, taskcatalog.CodeDiskRead},
		"one bit is another": {func(f *file) {
			f.read = func(b []byte, at int64) error {
				if at >= 8<<20 {
					b[len(b)-1] ^= 1
				}
				return nil
			}
		}, taskcatalog.CodeEraseResidue},
		"writes are dropped": {func(f *file) {
			f.write = func(b []byte, _ int64) error {
				clear(b)
				return nil
			}
		}, taskcatalog.CodeEraseResidue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.nvme("nvme0", play{})
			l.nvme("nvme1", play{})
			l.change = func(f *file) {
				if f.name == "nvme0n1" {
					c.change(f)
				}
			}
			res, _, err := l.do(t.Context())
			if d := res.Disks[0]; taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskNotErased || d.Verdict != taskcatalog.VerdictNotClean || d.Method != taskcatalog.MethodNone || d.Code != c.code || d.Verification != taskcatalog.OverwriteNone {
				t.Errorf("%v: %+v", err, d)
			}
			if d := res.Disks[1]; d.Verdict != taskcatalog.VerdictClean || d.Method != taskcatalog.MethodOverwrite || l.holds("nvme1n1") {
				t.Errorf("the other: %+v", d)
			}
		})
	}
}

// For a drive that cannot be written or read, its own report of an erase proves nothing: only a
// sanitize has a log.
func TestAnEraseThatNothingShowsIsNone(t *testing.T) {
	t.Parallel()
	worn := func(f *file) { f.write = func([]byte, int64) error { return errors.New("write protected") } }
	blind := func(f *file) { f.read = func([]byte, int64) error { return errors.New("input/output error") } }
	for name, c := range map[string]struct {
		play  play
		ata   bool
		fault func(f *file)
	}{
		"a key not changed, not written":     {play{OACS: formats, FNA: 4, Lies: true}, false, worn},
		"a key not changed, not read":        {play{OACS: formats, FNA: 4, Lies: true}, false, blind},
		"no format, not written":             {play{OACS: formats, Lies: true}, false, worn},
		"no enhanced erase, not written":     {play{Supported: true, Enhanced: true, Lies: true}, true, worn},
		"no enhanced erase, not read":        {play{Supported: true, Enhanced: true, Lies: true}, true, blind},
		"a key changed, and nothing to show": {play{OACS: formats, FNA: 4}, false, worn},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			if c.ata {
				l.ata("sda", sataPath, c.play)
			} else {
				l.nvme("nvme0", c.play)
			}
			l.change = c.fault
			res, _, err := l.do(t.Context())
			d := res.Disks[0]
			if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskNotErased || d.Verdict != taskcatalog.VerdictNotClean || d.Method != taskcatalog.MethodNone || d.Verification != taskcatalog.OverwriteNone {
				t.Fatalf("%v: %+v", err, d)
			}
			for _, a := range d.Attempts[:len(d.Attempts)-1] {
				if a.Code != taskcatalog.CodeEraseUnverified {
					t.Errorf("%+v", a)
				}
			}
		})
	}
	l := newLab(t)
	l.nvme("nvme0", play{SANICAP: 2, OACS: formats, Log: []int{sanitizeRunning, sanitizeDone}})
	l.change = worn
	if d := l.good().Disks[0]; d.Method != taskcatalog.MethodNVMeSanitizeBlock || d.Verification != taskcatalog.OverwriteUnverified || d.Code != taskcatalog.CodeEraseUnverified || d.ReadBackBytes != 0 {
		t.Errorf("%+v", d)
	}
}

// The log page is of the drive that has the controller's name by then.
func TestADriveThatIsAnotherAfterItsSanitizeIsInconclusive(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(l *lab){
		"another drive answers": func(l *lab) { l.becomes("nvme0", func(p *play) { p.Serial = "other" }) },
		"another is shown":      func(l *lab) { l.put("sys/class/nvme/nvme0/serial", "other\n") },
		"pulled":                func(l *lab) { l.ok(os.RemoveAll(filepath.Join(l.root, "sys/block/nvme0n1"))) },
	} {
		for _, fault := range []func(f *file){nil, func(f *file) { f.write = func([]byte, int64) error { return errors.New("gone") } }} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				l.nvme("nvme0", play{SANICAP: 2, OACS: formats, Log: []int{sanitizeRunning, sanitizeDone}})
				l.change = fault
				l.Progress = func(_ string, _, _, percent int, _ string) {
					if percent > 0 {
						swap(l)
					}
				}
				res, _, err := l.do(t.Context())
				if d := res.Disks[0]; err == nil || d.Verdict != taskcatalog.VerdictInconclusive || d.Method != taskcatalog.MethodNone {
					t.Errorf("%v: %+v", err, d)
				}
				l.wantRan(sanitizeLine(2))
			})
		}
	}
}

// A drive whose sanitize failed takes neither blocks nor a format until it leaves the failed state.
func TestASanitizeThatFailedBeforeIsLeftBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play   play
		method taskcatalog.EraseMethod
		ran    []string
	}{
		"then sanitized": {play{SANICAP: 2, Before: sanitizeFailed, Log: []int{sanitizeDone}}, taskcatalog.MethodNVMeSanitizeBlock, []string{exitLine, sanitizeLine(2)}},
		"then formatted": {play{SANICAP: 2, OACS: formats, Before: sanitizeFailed, Refuse: []string{"--sanact=2"}}, taskcatalog.MethodNVMeFormatErase, []string{exitLine, sanitizeLine(2), formatLine(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.nvme("nvme0", c.play)
			l.change = func(f *file) {
				f.write = func([]byte, int64) error {
					_, err := os.Stat(filepath.Join(l.root, "play/left"))
					return err
				}
			}
			if d := l.good().Disks[0]; d.Method != c.method || d.Verification != taskcatalog.OverwriteVerified {
				t.Errorf("%+v", d)
			}
			l.wantRan(c.ran...)
		})
	}
}

// An operation inside a controller affects all its namespaces.
func TestAFormatOfUnknownEndIsTheEndForItsController(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.nvme("nvme0", play{OACS: formats, Dies: "--namespace-id=1"})
	l.namespace("nvme0", 2)
	l.nvme("nvme1", play{OACS: formats})
	res, _, err := l.do(t.Context())
	if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskNotErased {
		t.Fatal(err)
	}
	for _, d := range res.Disks[:2] {
		if d.Verdict != taskcatalog.VerdictInconclusive || d.Code != taskcatalog.CodeEraseUnfinished || d.Method != taskcatalog.MethodNone {
			t.Errorf("%+v", d)
		}
	}
	if d := res.Disks[2]; d.Verdict != taskcatalog.VerdictClean || !l.holds("nvme0n2") {
		t.Errorf("%+v", d)
	}
}
