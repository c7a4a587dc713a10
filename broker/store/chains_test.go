package store_test

import (
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/chain/chaintest"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

func TestRunsAreKeptAsChainsNeedThem(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			chaintest.Suite(t, func(t *testing.T) *chaintest.Backend {
				clock := storetest.NewClock()
				db := storetest.Open(t, engine, clock.Now)
				return &chaintest.Backend{
					Store: db, Advance: clock.Advance,
					Effect: func(name string) any {
						return broker.AuditEntry{Actor: "system", Action: "test.effect", Subject: "effect/" + name}
					},
					Applied: func() (names []string) {
						for _, e := range must(db.ListAudit(ctx, store.AuditFilter{Action: "test.effect"}))(t) {
							names = append(names, e.Subject[len("effect/"):])
						}
						return names
					},
					Outbox: func() []string { return must(store.OutboxTypes(ctx, db))(t) },
					Audits: func() (actions []string) {
						for _, e := range must(db.ListAudit(ctx, store.AuditFilter{}))(t) {
							if e.Action == "test.effect" {
								continue
							}
							if e.Code != "" {
								e.Action += "!" + e.Code
							}
							actions = append(actions, e.Action)
						}
						return actions
					},
				}
			})
		})
	}
}

func TestSeveralEnginesOnOneStore(t *testing.T) {
	for _, engine := range storetest.Engines {
		t.Run(engine, func(t *testing.T) {
			url := storetest.URL(t, engine)
			stores := []chain.Store{storetest.Reopen(t, url, nil)}
			for engine == "postgres" && len(stores) < 3 {
				stores = append(stores, storetest.Reopen(t, url, nil))
			}
			chaintest.Several(t, 30, stores...)
		})
	}
}
