package selfupdate

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/taskcatalog"
	"github.com/hostler/hostler/taskcatalog/release"
)

// A loss of power in the middle of a pull loses no fetched byte: neither the next boot's watcher
// nor another process removes the partial release while a task may resume it.
func TestAPullGoesOnAfterALossOfPower(t *testing.T) {
	w := newWorld(t)
	if err := w.update(w.publish("1.0.5", "fine")); err != nil { // so that there is a watcher
		t.Fatal(err)
	}
	w.settled()
	p := w.publish("1.1.0", "fine and a program that is longer than a few pieces")
	var offsets []int64
	p.want.Source = opens(func(_ context.Context, part release.Part, offset int64) (io.ReadCloser, error) {
		if part.MediaType == release.MediaLayer {
			if offsets = append(offsets, offset); len(offsets) == 1 {
				w.cut, w.changes = 0, 0 // the next change is the first that fails
				return io.NopCloser(bytes.NewReader(p.Layer[:20])), nil
			}
		}
		return shelf{p.Artifact}.Open(t.Context(), part, offset)
	})
	ctx, cancel := context.WithCancel(t.Context())
	s := w.stager()
	s.Progress = func(step string, percent int, _ string) {
		if step == "fetch" && percent > 0 {
			cancel()
		}
	}
	if _, err := s.Stage(ctx, p.want); err == nil || len(offsets) != 1 {
		t.Fatalf("%v, asked from %v", err, offsets)
	}
	w.cut = -1
	w.powerOn()
	if !w.watch {
		t.Fatal("no watcher is started")
	}
	w.settled()
	w.put("lib/versions/0.9.0/hostler-agent", "0.9.0 fine")
	if err := w.store.Forget("0.9.0"); err != nil {
		t.Fatal(err)
	}
	staged, err := w.stager().Stage(t.Context(), p.want)
	if err != nil || staged.Slot != "1.1.0" || offsets[1] != 20 {
		t.Errorf("%+v %v, asked from %v", staged, err, offsets)
	}
}

func TestWhatWasFetchedIsNotKeptForEver(t *testing.T) {
	w := newWorld(t)
	old, late, later := unverified+"1.1.0-aaaaaaaaaaaa", unverified+"1.1.0-bbbbbbbbbbbb", unverified+"1.2.0-cccccccccccc"
	for name, age := range map[string]time.Duration{old: 25 * time.Hour, late: 2 * time.Hour, later: time.Hour} {
		file := filepath.Join(versions, name, layerFile)
		w.put("lib/"+file, "half")
		at := w.clock.Add(-age)
		if err := os.Chtimes(filepath.Join(w.lib, file), at, at); err != nil {
			t.Fatal(err)
		}
	}
	there := func() (names []string) {
		names, _ = w.store.folders()
		return names
	}
	if err := w.store.Collect(); err != nil || !slices.Equal(there(), []string{later, "1.0.0"}) {
		t.Errorf("%v, %v", err, there())
	}
	w.clock = w.clock.Add(partialRetention)
	if err := w.store.Collect(); err != nil || !slices.Equal(there(), []string{"1.0.0"}) {
		t.Errorf("a day later: %v, %v", err, there())
	}
}

// Between the creation of a slot and its record, no collection takes the slot for unused.
func TestNothingIsCollectedWhileAReleaseIsStaged(t *testing.T) {
	w := newWorld(t)
	w.put("lib/versions/0.9.0/hostler-agent", "0.9.0 fine")
	step, swept := w.store.step, 0
	w.store.step = func(what string) error {
		swept++
		if err := w.store.Collect(); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(what, "remove") { // the staging itself removes these
			if err := w.store.Forget("0.9.0"); taskcatalog.CodeOf(err, "") != CodeUnderWay {
				t.Errorf("before %s it is said to be removed: %v", what, err)
			}
		}
		return step(what)
	}
	staged, err := w.stager().Stage(t.Context(), w.publish("1.1.0", "fine").want)
	if err != nil || staged.Slot != "1.1.0" || swept < 8 {
		t.Fatalf("%+v %v, %d times", staged, err, swept)
	}
	if st, err := w.store.Load(); err != nil || st.Staged != "1.1.0" || w.store.checkSlot("1.1.0", st.Slots["1.1.0"]) != nil {
		t.Errorf("%+v %v", st, err)
	}
}
