package selfupdate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// lying is a source whose answers are changed on their way.
type lying struct {
	Source
	change func(release.Part, []byte) []byte
}

func (l lying) Open(ctx context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
	body, err := l.Source.Open(ctx, part, 0)
	if err != nil {
		return nil, err
	}
	raw, _ := io.ReadAll(body)
	raw = l.change(part, raw)
	return io.NopCloser(bytes.NewReader(raw[min(offset, int64(len(raw))):])), nil
}

// of applies a change to the parts of a media type.
func of(mediaType string, change func([]byte) []byte) func(release.Part, []byte) []byte {
	return func(p release.Part, raw []byte) []byte {
		if p.MediaType == mediaType {
			return change(raw)
		}
		return raw
	}
}

func flip(raw []byte) []byte {
	raw = bytes.Clone(raw)
	raw[len(raw)/2] ^= 1
	return raw
}

// The rows are TUF's list of attacks, by an attacker who controls the registry. An attacker who
// controls the broker as well has no release key either, so the same holds for signed content. The
// floor, however, comes from the task, and so from the broker: the node keeps no floor. A signed
// release that is faulty in itself is the fault of its maker or of a stolen key.
//
// Freeze has no row, because an updater cannot detect it: the updater asks for nothing by itself, a
// release does not expire, and the broker announces newer releases. A withheld task does nothing
// later: expired and replayed tasks are refused, see "expired" and "replayed" of agent/inbox's
// TestEachAttackIsRefusedWithItsOwnCode. Fast-forward is the test below this one.
func TestAttacksOnAnUpdateChangeNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		attack func(*world, *published)
		code   taskcatalog.Code
	}{
		{"arbitrary software: nobody signed it", func(_ *world, p *published) { p.want.Signatures = nil }, release.CodeSignatureInvalid},
		{"arbitrary software: signed by a key of the attacker's", func(w *world, p *published) {
			_, key, _ := ed25519.GenerateKey(nil)
			p.want.Signatures[0].Signature = ed25519.Sign(key, p.want.Signatures[0].Payload)
		}, release.CodeSignatureInvalid},
		{"key compromise: the key was retired", func(w *world, _ *published) { w.keys = release.Keys{} }, release.CodeSignatureInvalid},
		{"a signature of another release", func(w *world, p *published) {
			p.want.Signatures = w.publish("1.2.0", "fine").want.Signatures
		}, release.CodeSignatureInvalid},
		{"another manifest under the digest", func(_ *world, p *published) {
			p.want.Source = lying{p.want.Source, of(release.MediaManifest, flip)}
		}, release.CodeDigestMismatch},
		{"mix and match: the statement of another release", func(w *world, p *published) {
			other := w.publish("1.2.0", "fine")
			p.want.Source = lying{p.want.Source, of(release.MediaStatement, func([]byte) []byte { return other.Statement })}
		}, release.CodeDigestMismatch},
		{"mix and match: the program of another release", func(w *world, p *published) {
			other := w.publish("1.2.0", "fine")
			p.want.Source = lying{p.want.Source, of(release.MediaLayer, func(raw []byte) []byte {
				return append(bytes.Clone(other.Layer), make([]byte, max(0, len(raw)-len(other.Layer)))...)[:len(raw)]
			})}
		}, release.CodeDigestMismatch},
		{"a bit of the program", func(_ *world, p *published) {
			p.want.Source = lying{p.want.Source, of(release.MediaLayer, flip)}
		}, release.CodeDigestMismatch},
		{"wrong software: another version than was asked for", func(w *world, p *published) {
			p.want.Version = "1.2.0"
		}, release.CodeVersionWrong},
		{"wrong software: for another architecture", func(w *world, p *published) {
			*p = w.publish("1.1.0", "fine", func(s *release.Statement) { s.Arch = "arm64" })
		}, release.CodeArchWrong},
		{"wrong software: the program says that it is another version", func(w *world, p *published) {
			*p = w.lies("1.1.0", "1.0.5 fine")
		}, CodeSelfTest},
		{"rollback: below the floor", func(w *world, p *published) {
			*p = w.publish("0.9.0", "fine")
			p.want.Floor = "1.0.0"
		}, release.CodeBelowFloor},
		{"rollback: it does not read the state that is there", func(w *world, p *published) {
			*p = w.publish("1.1.0", "fine", func(s *release.Statement) { s.StateSchema = release.StateSchema{ReadsMin: 2, ReadsMax: 3, Writes: 2} })
		}, release.CodeStateUnreadable},
		{"extraneous files: something behind the program, and signed with it", func(w *world, p *published) {
			*p = w.behind(*p, "and more")
		}, release.CodeBinaryMismatch},
		{"a version that leads elsewhere", func(w *world, p *published) { p.want.Version = "../../../etc/cron.d" }, taskcatalog.CodeBadParams},
		{"it does not pass its own test", func(w *world, p *published) { *p = w.publish("1.1.0", "test-fails") }, CodeSelfTest},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.publish("1.1.0", "fine")
			c.attack(w, &p)
			before := w.listing()
			synctest.Test(t, func(t *testing.T) { // a truncated part is tried again for a while
				_, err := w.stager().Stage(t.Context(), p.want)
				if taskcatalog.CodeOf(err, "") != c.code {
					t.Errorf("%v, want %s", err, c.code)
				}
			})
			for _, name := range w.listing() {
				if !strings.HasPrefix(filepath.Base(name), unverified) && !containsString(before, name) && !strings.Contains(name, unverified) {
					t.Errorf("%s is there now", name)
				}
			}
			if w.store.Current() != "1.0.0" || len(w.ran) != 1 {
				t.Errorf("current is %s, %v ran", w.store.Current(), w.ran)
			}
		})
	}
}

// Fast-forward: a release with the highest possible version locks no later release out. The minimum
// is the floor, and each task brings its own floor.
func TestAVersionThatIsTooHighIsLeftAgain(t *testing.T) {
	w := newWorld(t)
	for _, version := range []string{"999999999.999999999.999999999", "1.1.0"} {
		if err := w.update(w.publish(version, "fine")); err != nil {
			t.Fatal(err)
		}
		if d := w.settled(); d == nil || d.Outcome != taskcatalog.UpdateConfirmed || w.store.Current() != version {
			t.Fatalf("%+v, and %s is current", d, w.store.Current())
		}
	}
}

func containsString(all []string, s string) bool {
	for _, one := range all {
		if one == s {
			return true
		}
	}
	return false
}

// listing returns the names in the agent's folder.
func (w *world) listing() (names []string) {
	_ = filepath.WalkDir(w.lib, func(name string, _ fs.DirEntry, _ error) error {
		names = append(names, strings.TrimPrefix(name, w.lib))
		return nil
	})
	return names
}

// lies is a signed release whose program differs from its statement.
func (w *world) lies(version, program string) published {
	a, err := release.Pack([]byte(program), release.Statement{
		Version: version, Commit: "abc123", OS: "linux", Arch: "amd64", StateSchema: release.State,
		Protocol: release.Protocol, BuiltAt: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		w.Fatal(err)
	}
	return w.sign(version, a)
}

// behind is a release with extra bytes behind the program in its layer; the manifest's digest
// covers them.
func (w *world) behind(p published, more string) published {
	w.Helper()
	a := *p.Artifact
	a.Layer = append(bytes.Clone(a.Layer), more...)
	was, is := fmt.Sprintf(`%q,"size":%d`, release.Digest(p.Layer), len(p.Layer)), fmt.Sprintf(`%q,"size":%d`, release.Digest(a.Layer), len(a.Layer))
	if a.Manifest = bytes.Replace(p.Manifest, []byte(was), []byte(is), 1); bytes.Equal(a.Manifest, p.Manifest) {
		w.Fatalf("there is no %s in %s", was, p.Manifest)
	}
	a.Digest = release.Digest(a.Manifest)
	return w.sign(p.want.Version, &a)
}

// A full disk leaves all as before, whenever the disk becomes full.
func TestADiskThatIsFullWhileStagingLeavesAllAsBefore(t *testing.T) {
	for n := 0; ; n++ {
		w := newWorld(t)
		p := w.publish("1.1.0", "fine")
		before, steps, full := w.listing(), 0, false
		w.store.step = func(what string) error {
			taking := strings.HasPrefix(what, "remove")
			if steps++; steps > n && !taking {
				full = true
				return syscall.ENOSPC
			}
			return nil
		}
		_, err := w.stager().Stage(t.Context(), p.want)
		if !full {
			if n < 8 || err != nil {
				t.Fatalf("%d changes, %v", n, err)
			}
			break
		}
		if code := taskcatalog.CodeOf(err, ""); code != CodeNoSpace {
			t.Errorf("full at change %d: %v", n, err)
		}
		w.store.step = func(string) error { return nil }
		if after := w.listing(); len(after) > len(before)+1 { // a complete slot may exist that is not recorded
			t.Errorf("full at change %d: %v", n, after)
		}
		if staged, err := w.stager().Stage(t.Context(), p.want); err != nil || staged.Slot != "1.1.0" {
			t.Errorf("with room again: %+v %v", staged, err)
		}
		_ = w.store.Close()
	}
}

// A staged slot may be spoiled before the switch.
func TestASlotThatWasChangedIsNotSwitchedTo(t *testing.T) {
	w := newWorld(t)
	staged, err := w.stager().Stage(t.Context(), w.publish("1.1.0", "fine").want)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.lib, versions, staged.Slot, program), []byte("1.1.0 fine and more"), 0o755); err != nil {
		t.Fatal(err)
	}
	keys := w.keys
	arm := func(change func(*Switch)) error {
		s := Switch{ID: "t-1", Running: "1.0.0", Version: "1.0.0", To: "1.1.0", Contact: time.Second}
		change(&s)
		_, err := w.stager().Arm(t.Context(), w, zap.NewNop(), s)
		return err
	}
	for _, c := range []struct {
		name   string
		change func(*Switch)
		code   taskcatalog.Code
	}{
		{"it was changed", func(*Switch) {}, CodeSlotDamaged},
		{"it was never staged", func(s *Switch) { s.To = "1.9.0" }, CodeNotStaged},
		{"it leads elsewhere", func(s *Switch) { s.To = "../../x" }, CodeNotStaged},
		{"the agent runs from no slot", func(s *Switch) { s.Running = "" }, CodeNotInSlot},
		{"another slot is current", func(s *Switch) { s.Running = "0.9.0" }, CodeNotInSlot},
	} {
		if err := arm(c.change); taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
	}
	if err := os.WriteFile(filepath.Join(w.lib, versions, staged.Slot, program), []byte("1.1.0 fine"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Switch)
		code   taskcatalog.Code
	}{
		{"below the floor", func(s *Switch) { s.Floor = "2.0.0" }, release.CodeBelowFloor},
		{"a floor that is not a valid version", func(s *Switch) { s.Floor = "v0" }, taskcatalog.CodeBadParams},
		{"its key was retired", func(*Switch) { w.keys = release.Keys{} }, release.CodeSignatureInvalid},
		{"as it was staged", func(*Switch) { w.keys = keys }, ""},
		{"while it is tried", func(*Switch) {}, CodeUnderWay},
	} {
		if err := arm(c.change); taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
	}
}
