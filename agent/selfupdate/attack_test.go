package selfupdate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
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

// without puts a change into one part.
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

// TUF's list of attacks, with who owns the registry and the broker as the attacker, but
// no release key. Freeze: a task has its latest start, and is taken once; that is tested
// in agent/inbox. Fast-forward is the test below this one.
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
		}, ""},
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
		{"extraneous files: something behind the program", func(w *world, p *published) {
			layer := p.Layer
			p.Layer = append(bytes.Clone(layer), "and more"...)
			p.want.Source = lying{shelf{w.publish("1.1.0", "fine").Artifact}, of(release.MediaLayer, func([]byte) []byte { return flip(layer) })}
		}, release.CodeDigestMismatch},
		{"a version that leads elsewhere", func(w *world, p *published) { p.want.Version = "../../../etc/cron.d" }, taskcatalog.CodeBadParams},
		{"it does not pass its own test", func(w *world, p *published) { *p = w.publish("1.1.0", "test-fails") }, CodeSelfTest},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			p := w.publish("1.1.0", "fine")
			c.attack(w, &p)
			before := w.listing()
			synctest.Test(t, func(t *testing.T) { // what ends short is tried again for a while
				_, err := w.stager().Stage(t.Context(), p.want)
				if c.code != "" && taskcatalog.CodeOf(err, "") != c.code || err == nil {
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

// Fast-forward: a release with the highest version that there can be locks no later one
// out. What is lowest is the floor's to say, and each task brings its own.
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

// listing is what is in the agent's folder.
func (w *world) listing() (names []string) {
	_ = filepath.WalkDir(w.lib, func(name string, _ fs.DirEntry, _ error) error {
		names = append(names, strings.TrimPrefix(name, w.lib))
		return nil
	})
	return names
}

// lies is a signed release whose program is not what its statement says.
func (w *world) lies(version, program string) published {
	p := w.publish(version, "fine")
	a, err := release.Pack([]byte(program), release.Statement{
		Version: version, Commit: "abc123", OS: "linux", Arch: "amd64", StateSchema: release.State,
		Protocol: release.Protocol, BuiltAt: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		w.Fatal(err)
	}
	payload, _ := release.Payload(a.Digest, "registry/agent")
	p.Artifact, p.want.Source = a, shelf{a}
	p.want.Manifest = release.Part{MediaType: release.MediaManifest, Digest: a.Digest, Size: int64(len(a.Manifest))}
	p.want.Signatures = []release.Signature{{Payload: payload, Signature: ed25519.Sign(w.key, payload)}}
	return p
}

// Endless data: of a source that does not end no more is taken than the part has.
func TestASourceThatDoesNotEndIsReadToTheSizeOfThePart(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", "fine")
	endless := &counted{}
	p.want.Source = opens(func(_ context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
		if part.MediaType == release.MediaLayer {
			return io.NopCloser(endless), nil
		}
		return shelf{p.Artifact}.Open(t.Context(), part, offset)
	})
	_, err := w.stager().Stage(t.Context(), p.want)
	if taskcatalog.CodeOf(err, "") != release.CodeDigestMismatch {
		t.Errorf("%v", err)
	}
	if size := int64(len(p.Layer)); endless.n > 2*size {
		t.Errorf("%d bytes were taken of a part of %d", endless.n, size)
	}
}

type counted struct{ n int64 }

func (c *counted) Read(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

type opens func(context.Context, release.Part, int64) (io.ReadCloser, error)

func (o opens) Open(ctx context.Context, p release.Part, offset int64) (io.ReadCloser, error) {
	return o(ctx, p, offset)
}

// Slow retrieval: a source that keeps the line open and says a byte a second is left,
// and in the end given up; the node is not held.
func TestASourceThatIsTooSlowIsGivenUp(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", strings.Repeat("fine ", 4000))
	synctest.Test(t, func(t *testing.T) {
		w.store.now = time.Now
		p.want.Source = opens(func(ctx context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
			return io.NopCloser(&drip{ctx: ctx}), nil
		})
		began := time.Now()
		_, err := w.stager().Stage(t.Context(), p.want)
		if took := time.Since(began); taskcatalog.CodeOf(err, "") != CodeSource || took > 2*patience {
			t.Errorf("%v after %s", err, took)
		}
	})
}

type drip struct{ ctx context.Context }

func (d *drip) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		p[0] = 'x'
		return 1, nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

// A registry that is gone in the middle of a pull is waited for, and gone on with from
// where it stopped; what a task leaves unfinished the next one goes on with.
func TestAPullGoesOnWhereItStopped(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", fmt.Sprintf("%x", w.key)) // longer than a few pieces
	size := int64(len(p.Layer))
	synctest.Test(t, func(t *testing.T) {
		w.store.now = time.Now
		var offsets []int64
		away := true
		p.want.Source = opens(func(ctx context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
			if part.MediaType != release.MediaLayer {
				return shelf{p.Artifact}.Open(ctx, part, offset)
			}
			offsets = append(offsets, offset)
			switch {
			case len(offsets) == 1, len(offsets) == 4: // it breaks after some bytes
				raw := p.Layer[offset:min(offset+20, size)]
				return io.NopCloser(io.MultiReader(bytes.NewReader(raw), broken{})), nil
			case away:
				return nil, errors.New("connection refused")
			}
			return shelf{p.Artifact}.Open(ctx, part, offset)
		})
		if _, err := w.stager().Stage(t.Context(), p.want); taskcatalog.CodeOf(err, "") != CodeSource {
			t.Fatalf("a registry that stays away: %v", err)
		}
		if offsets[0] != 0 || offsets[1] != 20 || offsets[len(offsets)-1] != 40 {
			t.Errorf("asked from %v", offsets)
		}
		away = false
		again := len(offsets)
		staged, err := w.stager().Stage(t.Context(), p.want)
		if err != nil || staged.Slot != "1.1.0" {
			t.Fatalf("%+v %v", staged, err)
		}
		if offsets[again] != 40 || staged.Fetched >= size+int64(len(p.Manifest)+len(p.Statement)) {
			t.Errorf("the next task asked from %v and fetched %d", offsets[again:], staged.Fetched)
		}
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// A full disk leaves all as before, whenever it is full.
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
		if after := w.listing(); len(after) > len(before)+1 { // a whole slot may be there that nobody has noted
			t.Errorf("full at change %d: %v", n, after)
		}
		if staged, err := w.stager().Stage(t.Context(), p.want); err != nil || staged.Slot != "1.1.0" {
			t.Errorf("with room again: %+v %v", staged, err)
		}
		_ = w.store.Close()
	}
}

// What is staged may be spoiled before it is switched to.
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
		{"a floor that is no version", func(s *Switch) { s.Floor = "v0" }, taskcatalog.CodeBadParams},
		{"its key was retired", func(*Switch) { w.keys = release.Keys{} }, release.CodeSignatureInvalid},
		{"as it was staged", func(*Switch) { w.keys = keys }, ""},
		{"while it is tried", func(*Switch) {}, CodeUnderWay},
	} {
		if err := arm(c.change); taskcatalog.CodeOf(err, "") != c.code {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
	}
}
