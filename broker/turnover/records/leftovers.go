package records

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/store"
)

// tidyEvery is the interval between attempts to remove secrets of deleted nodes.
const tidyEvery = 5 * time.Minute

// Leftovers removes the secrets of deleted nodes whose removal failed earlier. Until then hostler
// status lists them. Run it in the leading process.
type Leftovers struct {
	DB      *store.DB
	Secrets secrets.Keeper
	Log     *zap.Logger
}

// Run tries from time to time, until ctx ends.
func (l *Leftovers) Run(ctx context.Context) {
	periodic.Work{Every: tidyEvery, Turn: l.tidy, Log: l.Log, Cannot: "cannot remove the secrets of deleted nodes"}.Run(ctx)
}

func (l *Leftovers) tidy(ctx context.Context) error {
	all, err := l.DB.SecretsLeft(ctx, nil)
	for _, one := range all {
		err = errors.Join(err, removeSecrets(ctx, l.DB, l.Secrets, one.NodeID))
	}
	return err
}

// removeSecrets removes the secrets of a node, and records a failure for Leftovers.
func removeSecrets(ctx context.Context, db *store.DB, k secrets.Keeper, nodeID string) error {
	failed := secrets.ForgetNode(ctx, k, nodeID)
	return errors.Join(failed, db.NoteSecretsLeft(ctx, broker.System, nodeID, failed != nil))
}
