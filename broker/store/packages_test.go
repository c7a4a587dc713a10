package store_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog/release"
)

// A new machine gets no withdrawn package.
func TestTheNewestPackageIsOneThatMayBeGiven(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		newest := func(arch, version string, withheld int) {
			t.Helper()
			p, n, err := db.NewestPackage(ctx, arch)
			ok(t, err)
			if got := p; (got == nil) != (version == "") || got != nil && got.Version != version || n != withheld {
				t.Errorf("of %s it is %+v with %d withheld, want %q with %d", arch, got, n, version, withheld)
			}
		}
		newest("amd64", "", 0)
		for _, v := range []string{"1.3.0", "1.4.0~rc.1-1", "1.4.0-2", "own"} {
			clock.Advance(time.Minute)
			must(db.PutPackage(ctx, admin, store.Package{Name: "hostler-agent_" + v + "_amd64.deb", Version: v}, bytes.NewReader([]byte(v))))(t)
		}
		newest("amd64", "own", 0)
		newest("arm64", "", 0)
		publishAndRevoke := func(v string) {
			t.Helper()
			must(db.PublishRelease(ctx, admin, store.AgentRelease{Version: v, Digest: release.Digest([]byte(v)), Channel: "stable", Reference: "r:5000/agent", Manifest: []byte(v), Statement: []byte("s")}))(t)
			must(db.RevokeRelease(ctx, admin, v, "no good"))(t)
		}
		publishAndRevoke("1.4.0")
		newest("amd64", "own", 0)
		publishAndRevoke("own")
		newest("amd64", "1.4.0~rc.1-1", 2)
		must(db.SetReleaseFloor(ctx, admin, "1.4.0", "a hole"))(t)
		newest("amd64", "", 4)
		clock.Advance(time.Minute)
		must(db.PutPackage(ctx, admin, store.Package{Name: "hostler-agent_x_amd64.deb", Version: "x"}, bytes.NewReader([]byte("x"))))(t)
		newest("amd64", "", 5) // its version cannot be compared with the floor
		must(db.PutPackage(ctx, admin, store.Package{Name: "hostler-agent_1.5.0-1_amd64.deb", Version: "1.5.0-1"}, bytes.NewReader([]byte("1.5.0"))))(t)
		newest("amd64", "1.5.0-1", 0)
	})
}

// Any caller may open a package and leave it unread.
func TestAReaderOfAPackageHoldsAPieceOfIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		const readers = 64
		text := make([]byte, 2<<20+12345)
		_, _ = rand.NewChaCha8([32]byte{}).Read(text)
		p := must(db.PutPackage(ctx, admin, store.Package{Name: "hostler-agent_1_amd64.deb", Version: "1"}, bytes.NewReader(text)))(t)
		held := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		open := func() io.ReadSeeker {
			_, content, err := db.OpenPackage(ctx, p.Digest)
			return must(content, err)(t)
		}
		if all := must(io.ReadAll(open()))(t); !bytes.Equal(all, text) {
			t.Error("it is not what was put")
		}
		before := held()
		var all []io.ReadSeeker
		for i := range readers {
			r := open()
			at := int64(i) * 30_000
			must(r.Seek(at, io.SeekStart))(t)
			one := make([]byte, 1)
			if must(r.Read(one))(t); one[0] != text[at] {
				t.Errorf("byte %d is another", at)
			}
			all = append(all, r)
		}
		if each := int64(held()-before) / readers; each > 128<<10 {
			t.Errorf("each of %d readers holds %d bytes", readers, each)
		}
		runtime.KeepAlive(all)
	})
}
