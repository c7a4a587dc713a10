package store_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
	"github.com/hostler/hostler/taskcatalog/release"
)

// signed is a release at a registry, verified elsewhere.
func signed(version string) store.AgentRelease {
	return store.AgentRelease{
		Version: version, Digest: release.Digest([]byte("manifest " + version)), Channel: "stable", Reference: "registry.example/agent",
		Manifest: []byte("manifest " + version), Statement: []byte("statement " + version), KeyID: "k1",
		Signatures:    []release.Signature{{Payload: []byte("p"), Signature: []byte("s")}},
		StatementPart: release.Digest([]byte("statement " + version)), LayerPart: release.Digest([]byte("layer " + version)), LayerSize: 7,
	}
}

func TestAVersionIsOneReleaseForEver(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		first := must(db.PublishRelease(ctx, admin, signed("1.0.0")))(t)
		want := signed("1.0.0")
		want.PublishedBy, want.PublishedAt = "ada", first.PublishedAt
		if !reflect.DeepEqual(first, want) || first.Revoked() {
			t.Fatalf("kept %+v", first)
		}
		clock.Advance(time.Minute)
		moved := signed("1.0.0")
		moved.Channel, moved.Reference, moved.PlainHTTP = "canary", "[::1]:5000/agent", true
		again := must(db.PublishRelease(ctx, broker.Actor{Name: "bo"}, moved))(t)
		moved.PublishedBy, moved.PublishedAt = "ada", first.PublishedAt
		if !reflect.DeepEqual(again, moved) {
			t.Fatalf("moved %+v", again)
		}
		other := signed("1.0.0")
		other.Digest = release.Digest([]byte("another build"))
		_, err := db.PublishRelease(ctx, admin, other)
		refused(t, err, "release_version_taken")
		must(db.PublishRelease(ctx, admin, signed("1.1.0")))(t)
		if all := must(db.AgentReleases(ctx, ""))(t); len(all) != 2 || all[0].Version != "1.1.0" {
			t.Errorf("all %+v", all)
		}
		if canary := must(db.AgentReleases(ctx, "canary"))(t); len(canary) != 1 || canary[0].Version != "1.0.0" {
			t.Errorf("canary %+v", canary)
		}
		_, err = db.AgentRelease(ctx, "9.9.9")
		refused(t, err, "agent_release_unknown")
	})
}

func TestARevokedReleaseDoesNotComeBack(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		must(db.PublishRelease(ctx, admin, signed("1.0.0")))(t)
		first := must(db.RevokeRelease(ctx, admin, "1.0.0", "eats disks"))(t)
		clock.Advance(time.Minute)
		again := must(db.RevokeRelease(ctx, broker.Actor{Name: "bo"}, "1.0.0", "me too"))(t)
		if !again.Revoked() || again.RevokedBy != "ada" || again.RevokedReason != "eats disks" || !again.RevokedAt.Equal(first.RevokedAt) {
			t.Errorf("first %+v, then %+v", first, again)
		}
		_, err := db.PublishRelease(ctx, admin, signed("1.0.0"))
		refused(t, err, "release_revoked")
		_, err = db.RevokeRelease(ctx, admin, "2.0.0", "typo")
		refused(t, err, "agent_release_unknown")
		if got := audited(t, db, "release.revoke", ""); got != 1 {
			t.Errorf("%d audit rows of one word", got)
		}
	})
}

func TestTheFloorIsOne(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		if f := must(db.ReleaseFloor(ctx))(t); f != (store.ReleaseFloor{}) {
			t.Errorf("at first %+v", f)
		}
		must(db.SetReleaseFloor(ctx, admin, "1.0.0", "first"))(t)
		set := must(db.SetReleaseFloor(ctx, broker.Actor{Name: "bo"}, "1.2.0", "a hole in 1.1"))(t)
		if f := must(db.ReleaseFloor(ctx))(t); f != set || f.Version != "1.2.0" || f.By != "bo" || f.Reason != "a hole in 1.1" {
			t.Errorf("it is %+v, and was set to %+v", f, set)
		}
	})
}

// The parts of a release served by the broker must exist when the release is published, and are no
// packages. Parts that no release names are deleted.
func TestPartsOfAReleaseAreKeptWithIt(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		put := func(content string) store.Package {
			t.Helper()
			return must(db.PutPackage(ctx, admin, store.Package{Name: "part", Part: true}, bytes.NewReader([]byte(content))))(t)
		}
		here := signed("1.0.0")
		here.Reference = ""
		put("manifest 1.0.0")
		put("statement 1.0.0")
		_, err := db.PublishRelease(ctx, admin, here)
		refused(t, err, "release_part_missing")
		if _, err := db.AgentRelease(ctx, "1.0.0"); err == nil {
			t.Fatal("a release without its layer is there")
		}
		put("layer 1.0.0")
		must(db.PublishRelease(ctx, admin, here))(t)
		if listed := must(db.Packages(ctx))(t); len(listed) != 0 {
			t.Errorf("parts are listed as packages: %+v", listed)
		}

		orphan := put("of no release")
		clock.Advance(20 * time.Hour)
		put("of no release") // uploaded again: kept for another uploadLife
		clock.Advance(20 * time.Hour)
		put("another")
		_, _, err = db.OpenPackage(ctx, orphan.Digest)
		ok(t, err)
		clock.Advance(5 * time.Hour)
		put("a third")
		_, _, err = db.OpenPackage(ctx, orphan.Digest)
		refused(t, err, "package_not_found")
		for _, part := range []string{here.Digest, here.StatementPart, here.LayerPart} {
			_, _, err := db.OpenPackage(ctx, part)
			ok(t, err)
		}
	})
}
