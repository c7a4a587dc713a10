package erase

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/agent/erase/erasetest"
	"github.com/hostler/hostler/taskcatalog"
)

func TestATheSecurityEraseOfATADisks(t *testing.T) {
	t.Parallel()
	const set, off = "hdparm --user-master u --security-set-pass hostler /dev/sda", "hdparm --user-master u --security-disable hostler /dev/sda"
	const plain, enhanced = "hdparm --user-master u --security-erase hostler /dev/sda", "hdparm --user-master u --security-erase-enhanced hostler /dev/sda"
	const unlock = "hdparm --user-master u --security-unlock hostler /dev/sda"
	for name, c := range map[string]struct {
		play          play
		asked, method taskcatalog.EraseMethod
		codes         []taskcatalog.Code
		ran           []string
	}{
		"enhanced":                {play{Supported: true, Enhanced: true}, taskcatalog.MethodATAEnhancedErase, taskcatalog.MethodATAEnhancedErase, nil, []string{set, enhanced}},
		"plain":                   {play{Supported: true}, taskcatalog.MethodATASecureErase, taskcatalog.MethodATASecureErase, nil, []string{set, plain}},
		"none":                    {play{}, taskcatalog.MethodOverwrite, taskcatalog.MethodOverwrite, nil, nil},
		"frozen":                  {play{Supported: true, Enhanced: true, Frozen: true}, taskcatalog.MethodATAEnhancedErase, taskcatalog.MethodOverwrite, []taskcatalog.Code{taskcatalog.CodeATAFrozen}, nil},
		"interrupted":             {play{Supported: true, Password: "ours", Locked: true}, taskcatalog.MethodATASecureErase, taskcatalog.MethodATASecureErase, nil, []string{unlock, off, set, plain}},
		"interrupted, not locked": {play{Supported: true, Password: "ours"}, taskcatalog.MethodATASecureErase, taskcatalog.MethodATASecureErase, nil, []string{off, set, plain}},
		"interrupted, enhanced":   {play{Supported: true, Enhanced: true, Password: "ours", Locked: true}, taskcatalog.MethodATAEnhancedErase, taskcatalog.MethodATAEnhancedErase, nil, []string{unlock, off, set, enhanced}},
		"enhanced is refused": {
			play{Supported: true, Enhanced: true, Refuse: []string{"erase-enhanced"}},
			taskcatalog.MethodATAEnhancedErase, taskcatalog.MethodATASecureErase,
			[]taskcatalog.Code{taskcatalog.CodeEraseRefused},
			[]string{set, enhanced, off, set, plain},
		},
		"it says that it is done and is not": {
			play{Supported: true, KeepsPassword: true},
			taskcatalog.MethodATASecureErase, taskcatalog.MethodOverwrite,
			[]taskcatalog.Code{taskcatalog.CodeEraseFailed},
			[]string{set, plain, off},
		},
		"it lies": {play{Supported: true, Lies: true}, taskcatalog.MethodATASecureErase, taskcatalog.MethodOverwrite, []taskcatalog.Code{taskcatalog.CodeEraseResidue}, []string{set, plain}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.ata("sda", sataPath, c.play)
			d := l.good().Disks[0]
			var codes []taskcatalog.Code
			for _, a := range d.Attempts {
				codes = append(codes, a.Code)
			}
			if d.Asked != c.asked || d.Method != c.method || d.Verdict != taskcatalog.VerdictClean || d.Verification != taskcatalog.OverwriteVerified || !slices.Equal(codes, c.codes) {
				t.Errorf("%+v", d)
			}
			if _, less := d.Downgraded(); less != (c.asked != c.method) || l.holds("sda") {
				t.Errorf("downgraded %v, the data are there %v", less, l.holds("sda"))
			}
			l.wantRan(c.ran...)
		})
	}
}

// A disk that locks at the next loss of power is under the control of the password's owner, even if
// it is empty.
func TestADiskWithAPasswordIsNotClean(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play    play
		mode    string
		first   taskcatalog.Code // of the attempts
		verdict taskcatalog.Verdict
		code    taskcatalog.Code
	}{
		"a stranger's":            {play{Supported: true, Password: "theirs"}, taskcatalog.EraseSecure, taskcatalog.CodeATAPassword, taskcatalog.VerdictNotClean, taskcatalog.CodeATAPassword},
		"a stranger's, frozen":    {play{Supported: true, Enhanced: true, Frozen: true, Password: "theirs"}, taskcatalog.EraseSecure, taskcatalog.CodeATAPassword, taskcatalog.VerdictNotClean, taskcatalog.CodeATAPassword},
		"the agent's, frozen":     {play{Supported: true, Frozen: true, Password: "ours"}, taskcatalog.EraseSecure, taskcatalog.CodeATAPassword, taskcatalog.VerdictNotClean, taskcatalog.CodeATAPassword},
		"discarded only":          {play{Supported: true, Password: "theirs"}, taskcatalog.EraseQuick, "", taskcatalog.VerdictNotClean, taskcatalog.CodeATAPassword},
		"one that stays":          {play{Supported: true, Refuse: []string{"--security-erase", "--security-disable"}}, taskcatalog.EraseSecure, taskcatalog.CodeEraseFailed, taskcatalog.VerdictNotClean, taskcatalog.CodeATAPassword},
		"nobody knows of one":     {play{Refuse: []string{"-I"}}, taskcatalog.EraseSecure, taskcatalog.CodeEraseRefused, taskcatalog.VerdictInconclusive, taskcatalog.CodeEraseRefused},
		"nobody knows what it is": {play{Garbage: []string{"-I"}}, taskcatalog.EraseSecure, taskcatalog.CodeEraseRefused, taskcatalog.VerdictInconclusive, taskcatalog.CodeEraseRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.ata("sda", sataPath, c.play)
			l.Params.Mode = c.mode
			res, report, err := l.do(t.Context())
			d := res.Disks[0]
			if taskcatalog.CodeOf(err, "") != taskcatalog.CodeDiskNotErased || d.Verdict != c.verdict || d.Code != c.code || d.Message == "" || report.Dispositions[0].Action != taskcatalog.ActionFailed {
				t.Errorf("%v: %+v", err, d)
			}
			if c.first != "" && (d.Attempts[0].Code != c.first || d.Method != taskcatalog.MethodOverwrite || l.holds("sda")) {
				t.Errorf("%+v", d)
			}
		})
	}
	// The agent removes a password that it set itself.
	l := newLab(t)
	l.ata("sda", sataPath, play{Supported: true, Refuse: []string{"--security-erase"}})
	if d := l.good().Disks[0]; d.Method != taskcatalog.MethodOverwrite || erasetest.Read(filepath.Join(l.root, "play/sda.json")).Password != "" {
		t.Errorf("%+v", d)
	}
}

// No method follows on a drive that may still be erasing itself.
func TestAnATAEraseOfUnknownEndIsFollowedByNothing(t *testing.T) {
	t.Parallel()
	const set, off = "hdparm --user-master u --security-set-pass hostler /dev/sda", "hdparm --user-master u --security-disable hostler /dev/sda"
	const plain = "hdparm --user-master u --security-erase hostler /dev/sda"
	for name, c := range map[string]struct {
		play play
		ran  []string
	}{
		"it ends badly, and the drive does not answer": {play{Supported: true, Refuse: []string{"--security-erase"}, Silences: "--security-erase"}, []string{set, plain}},
		"it ends well, and the drive does not answer":  {play{Supported: true, Lies: true, Silences: "--security-erase"}, []string{set, plain}},
		"it is killed":                         {play{Supported: true, Dies: "--security-erase"}, []string{set, plain}},
		"the password's end is not known":      {play{Supported: true, Password: "ours", Dies: "--security-disable"}, []string{off}},
		"nor after an erase that was not done": {play{Supported: true, Lies: true, KeepsPassword: true, Dies: "--security-disable"}, []string{set, plain, off}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.ata("sda", sataPath, c.play)
			res, _, err := l.do(t.Context())
			d := res.Disks[0]
			if err == nil || d.Verdict != taskcatalog.VerdictInconclusive || d.Code != taskcatalog.CodeEraseUnfinished || d.Method != taskcatalog.MethodNone {
				t.Errorf("%v: %+v", err, d)
			}
			if len(c.ran) > 1 && !strings.Contains(d.Message, `"hostler"`) {
				t.Errorf("%s", d.Message)
			}
			if c.play.Lies && !l.holds("sda") {
				t.Error("it was overwritten")
			}
			l.wantRan(c.ran...)
		})
	}
}
