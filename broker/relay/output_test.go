package relay

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/hostler/hostler/taskcatalog/wire/frame"
)

// Bytes once returned by shown never change, whatever is added and forgotten later. Bytes that are
// not kept, or beyond the limit, are never returned.
func TestWhatIsShownIsWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o output
		var all []byte
		given := map[uint64][]byte{}
		shown := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				b := bytes.Repeat([]byte{byte(len(all))}, rapid.IntRange(1, frame.MaxData).Draw(t, "bytes"))
				o.add(b)
				all = append(all, b...)
			},
			"keep": func(t *rapid.T) { o.kept = rapid.Uint64Range(o.kept, o.end()).Draw(t, "kept") },
			"show": func(t *rapid.T) {
				limit := rapid.Uint64Range(0, uint64(len(all))).Draw(t, "limit")
				b := o.shown(shown, limit)
				to := shown + uint64(len(b))
				if len(b) > frame.MaxData || len(b) > 0 && (to > limit || to > o.kept) || len(b) == 0 && shown < min(limit, o.kept) {
					t.Fatalf("%d bytes after %d, with %d kept and %d allowed", len(b), shown, o.kept, limit)
				}
				given[shown], shown = b, to
			},
			"forget": func(t *rapid.T) {
				o.forget(shown)
				if o.kept-o.from > max(screenful, o.kept-shown)+frame.MaxData {
					t.Fatalf("%d bytes are held from %d, of %d that are shown", o.size, o.from, shown)
				}
			},
			"": func(t *rapid.T) {
				if o.end() != uint64(len(all)) {
					t.Fatalf("it ends at %d of %d bytes", o.end(), len(all))
				}
				for at, b := range given {
					if !bytes.Equal(b, all[at:at+uint64(len(b))]) {
						t.Fatalf("what was shown after %d has changed", at)
					}
				}
			},
		})
	})
}
