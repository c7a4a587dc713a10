package store_test

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestASourceHasOneCredentialOfAName(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		_, err := db.SourceCredential(ctx, "models")
		refused(t, err, "source_credential_not_found")
		c := broker.SourceCredential{
			Name: "models", Source: "s3:models", Endpoint: "https://s3.example", Region: "eu", KeyID: "AK1", Generation: "g-1",
			VaultPath: "sites/1/api-token", Reason: "first",
		}
		first := must(db.PutSourceCredential(ctx, admin, c))(t)
		if first.VaultPath != broker.SourceCredentialPath("models") || first.SetBy != "ada" || !first.SetAt.Equal(clock.Now()) {
			t.Errorf("%+v", first)
		}
		c.KeyID, c.Generation, c.Reason = "AK2", "g-2", "turned"
		second := must(db.PutSourceCredential(ctx, admin, c))(t)
		must(db.PutSourceCredential(ctx, admin, broker.SourceCredential{Name: "hub"}))(t)
		if got := must(db.SourceCredentials(ctx))(t); len(got) != 2 || got[1] != second || second.KeyID != "AK2" || second.Generation != "g-2" {
			t.Errorf("%+v", got)
		}
		if had := must(db.RemoveSourceCredential(ctx, admin, "models", "over"))(t); had != second {
			t.Errorf("%+v", had)
		}
		_, err = db.RemoveSourceCredential(ctx, admin, "models", "over")
		refused(t, err, "source_credential_not_found")
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "source/models", Newest: true}))(t)
		if len(rows) != 3 || rows[0].Reason != "over" || !strings.Contains(string(rows[1].Before), "AK1") || !strings.Contains(string(rows[1].After), "AK2") {
			t.Errorf("%+v", rows)
		}
	})
}
