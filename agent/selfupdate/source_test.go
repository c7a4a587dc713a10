package selfupdate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// Extraneous files: bytes that a source sends behind a part are not taken, for any part.
func TestWhatStandsBehindAPartIsNotTaken(t *testing.T) {
	w := newWorld(t)
	p := w.publish("1.1.0", "fine")
	p.want.Source = lying{p.want.Source, func(_ release.Part, raw []byte) []byte { return append(bytes.Clone(raw), "and more"...) }}
	staged, err := w.stager().Stage(t.Context(), p.want)
	if err != nil {
		t.Fatal(err)
	}
	if size := int64(len(p.Manifest) + len(p.Statement) + len(p.Layer)); staged.Fetched != size {
		t.Errorf("%d bytes were taken of %d", staged.Fetched, size)
	}
	files, err := os.ReadDir(filepath.Join(w.lib, versions, staged.Slot))
	if raw, _ := os.ReadFile(filepath.Join(w.lib, versions, staged.Slot, program)); err != nil || len(files) != 1 || string(raw) != "1.1.0 fine" {
		t.Errorf("%v in the slot, the program is %q: %v", files, raw, err)
	}
}

// Endless data: from an endless source only the part's size is read.
func TestASourceThatDoesNotEndIsReadToTheSizeOfThePart(t *testing.T) {
	for mediaType, size := range map[string]func(published) int{
		release.MediaManifest:  func(p published) int { return len(p.Manifest) },
		release.MediaStatement: func(p published) int { return len(p.Statement) },
		release.MediaLayer:     func(p published) int { return len(p.Layer) },
	} {
		w := newWorld(t)
		p := w.publish("1.1.0", "fine")
		endless := &counted{}
		p.want.Source = opens(func(_ context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
			if part.MediaType == mediaType {
				return io.NopCloser(endless), nil
			}
			return shelf{p.Artifact}.Open(t.Context(), part, offset)
		})
		_, err := w.stager().Stage(t.Context(), p.want)
		if taskcatalog.CodeOf(err, "") != release.CodeDigestMismatch {
			t.Errorf("%s: %v", mediaType, err)
		}
		if size := int64(size(p)); endless.n < size || endless.n > 2*size {
			t.Errorf("%s: %d bytes were taken of a part of %d", mediaType, endless.n, size)
		}
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

// Slow retrieval: a source that sends a byte a second is disconnected, and given up in the end; the
// node is not blocked.
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

// A registry that vanishes in the middle of a pull is retried, and the pull resumes where it
// stopped. The next task resumes a pull left unfinished by a task.
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
			case len(offsets) == 1, len(offsets) == 4: // breaks after some bytes
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
