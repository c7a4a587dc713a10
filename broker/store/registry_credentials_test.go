package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestARegistryHasOneCredentialOnRecord(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		_, err := db.RegistryCredential(ctx, "registry:5000")
		refused(t, err, "registry_credential_not_found")
		first := must(db.PutRegistryCredential(ctx, admin, broker.RegistryCredential{Registry: "registry:5000", Username: "ci", PlainHTTP: true, Generation: "g-1", VaultPath: "sites/1/api-token", Reason: "first"}))(t)
		if first.VaultPath != broker.RegistryCredentialPath("registry:5000") || first.SetBy != "ada" || !first.PlainHTTP || first.Generation != "g-1" {
			t.Errorf("%+v", first)
		}
		clock.Advance(time.Minute)
		second := must(db.PutRegistryCredential(ctx, admin, broker.RegistryCredential{Registry: "registry:5000", Username: "pull", Generation: "g-2", Reason: "least"}))(t)
		must(db.PutRegistryCredential(ctx, admin, broker.RegistryCredential{Registry: "another", Username: "x"}))(t)
		if got := must(db.RegistryCredentials(ctx))(t); len(got) != 2 || got[1] != second || second.Username != "pull" || second.Generation != "g-2" || second.PlainHTTP || !second.SetAt.Equal(clock.Now()) {
			t.Errorf("%+v", got)
		}
		if had := must(db.RemoveRegistryCredential(ctx, admin, "registry:5000", "over"))(t); had != second {
			t.Errorf("%+v", had)
		}
		_, err = db.RemoveRegistryCredential(ctx, admin, "registry:5000", "over")
		refused(t, err, "registry_credential_not_found")
		rows := must(db.ListAudit(ctx, store.AuditFilter{Subject: "registry/registry:5000", Newest: true}))(t)
		if len(rows) != 3 || rows[0].Reason != "over" || !strings.Contains(string(rows[1].Before), "ci") || !strings.Contains(string(rows[1].After), "pull") {
			t.Errorf("%+v", rows)
		}
	})
}
