package retention_test

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker/nodeapi"
	"github.com/hostler/hostler/broker/retention"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// A certificate may renew for a while after it ran out: as long it is on record.
func TestNothingGoesThatMayStillRenew(t *testing.T) {
	if retention.Certificates <= nodeapi.DefaultRenewGrace {
		t.Errorf("certificates are kept for %v and may renew for %v", retention.Certificates, nodeapi.DefaultRenewGrace)
	}
}

func TestAnEmptyStoreIsLeftAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, clock *storetest.Clock) {
		clock.Advance(365 * 24 * time.Hour)
		k := &retention.Keeper{DB: db, Log: zap.NewNop()}
		if err := k.Drop(t.Context()); err != nil {
			t.Error(err)
		}
		if rows, err := db.ListAudit(t.Context(), store.AuditFilter{Action: "certificate.dropped"}); err != nil || len(rows) != 0 {
			t.Errorf("audited %v, %v", rows, err)
		}
	})
}
