package records

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/store/storetest"
)

// sealed is a keeper that removes nothing while it is shut.
type sealed struct {
	secrets.Keeper
	shut bool
}

func (s *sealed) Delete(context.Context, string) error {
	if s.shut {
		return errors.New("it is sealed")
	}
	return nil
}

func TestWhatWasLeftOfANodeIsRemovedLater(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB, _ *storetest.Clock) {
		ctx := t.Context()
		n, err := db.CreateNode(ctx, broker.Actor{Name: "ada"}, store.NewNode{ID: "n-abcdefghijklmnop", Hostname: "gpu-1", TokenHash: "h"})
		if err != nil {
			t.Fatal(err)
		}
		keeper := &sealed{shut: true}
		nodes := &Nodes{DB: db, Secrets: keeper}
		if err := nodes.ForgetSecrets(ctx, n.ID); err == nil {
			t.Error("nobody says that it failed")
		}
		tidy := &Leftovers{DB: db, Secrets: keeper, Log: zap.NewNop()}
		if err := tidy.tidy(ctx); err == nil {
			t.Error("a turn that removed nothing reports no error")
		}
		if left, err := db.SecretsLeft(ctx, nil); err != nil || len(left) != 1 || left[0].NodeID != n.ID || left[0].Hostname != "gpu-1" || left[0].Since.IsZero() {
			t.Errorf("%+v, %v", left, err)
		}
		keeper.shut = false
		if err := tidy.tidy(ctx); err != nil {
			t.Error(err)
		}
		if left, err := db.SecretsLeft(ctx, nil); err != nil || len(left) != 0 {
			t.Errorf("%+v, %v", left, err)
		}
	})
}
