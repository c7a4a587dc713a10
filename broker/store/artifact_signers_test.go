package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestANameHasOneArtifactSigner(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		_, err := db.RemoveArtifactSigner(ctx, admin, "team", "over", permitted)
		refused(t, err, "artifact_signer_not_found")
		s := broker.ArtifactSigner{
			Name: "team", Source: "oci:r.example", Issuer: "https://login.example", Subject: "a", SubjectPattern: "b", TrustedRoot: "{}", Key: "k", Reason: "first",
		}
		first := must(db.PutArtifactSigner(ctx, admin, s, permitted))(t)
		if first.SetBy != "ada" || !first.SetAt.Equal(clock.Now()) || first.Trust() != s.Trust() {
			t.Errorf("%+v", first)
		}
		s.Key, s.Reason = "k2", "turned"
		second := must(db.PutArtifactSigner(ctx, admin, s, permitted))(t)
		must(db.PutArtifactSigner(ctx, admin, broker.ArtifactSigner{Name: "corp"}, permitted))(t)
		if got := must(db.ArtifactSigners(ctx))(t); len(got) != 2 || got[1] != second || second.Key != "k2" {
			t.Errorf("%+v", got)
		}
		if had := must(db.RemoveArtifactSigner(ctx, admin, "team", "over", permitted))(t); had != second {
			t.Errorf("%+v", had)
		}
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "signer/team", Newest: true}))(t)
		if len(rows) != 3 || rows[0].Reason != "over" || !strings.Contains(string(rows[1].Before), first.Trust()) || !strings.Contains(string(rows[1].After), second.Trust()) {
			t.Errorf("%+v", rows)
		}
		for i := range 63 {
			must(db.PutArtifactSigner(ctx, admin, broker.ArtifactSigner{Name: fmt.Sprintf("s%d", i)}, permitted))(t)
		}
		_, err = db.PutArtifactSigner(ctx, admin, broker.ArtifactSigner{Name: "more"}, permitted)
		refused(t, err, "too_many_artifact_signers")
		must(db.PutArtifactSigner(ctx, admin, broker.ArtifactSigner{Name: "corp", Reason: "again"}, permitted))(t)
	})
}

// What looks at operations every few seconds reads no trusted root, of which each has up to 64 KiB.
func TestSignersAreReadInShort(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		team := must(db.PutArtifactSigner(ctx, admin, broker.ArtifactSigner{Name: "team", Source: "oci:r.example/m", Key: "k", TrustedRoot: "{}"}, permitted))(t)
		must(db.PutArtifactSigner(ctx, admin, broker.ArtifactSigner{Name: "corp", Source: "oci:r.example", Key: "k"}, permitted))(t)
		corp := must(db.PutArtifactSigner(ctx, admin, broker.ArtifactSigner{Name: "corp", Source: "oci:r.example", Key: "turned"}, permitted))(t)
		for _, column := range []string{"trusted_root", "public_key"} {
			ok(t, store.Exec(ctx, db, `ALTER TABLE artifact_signers DROP COLUMN `+column))
		}
		want := []broker.SignerTrust{
			{Name: "corp", Source: "oci:r.example", Trust: corp.Trust()},
			{Name: "team", Source: "oci:r.example/m", Trust: team.Trust(), Root: team.Root()},
		}
		if got := must(db.ArtifactSignerTrusts(ctx))(t); !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func permitted(context.Context, store.SignerRemoval) error { return nil }
