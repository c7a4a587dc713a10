package trust

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/pki"
)

// gapLife is how long it counts what a replica has told: one that is gone does not start
// again without the keys.
const gapLife = 6 * rereadEvery

func thisReplica() store.Replica {
	name, err := os.Hostname()
	if err != nil {
		name = "unnamed"
	}
	return store.Replica{ID: rand.Text(), Name: name}
}

// complete reads the ring again while it lacks keys of the bundle in force, which an
// operator copies here, and tells the other replicas of it until it has them. One that lacks
// none takes out what the bundle retired.
func (a *Authority) complete(ctx context.Context) error {
	a.gap.Lock()
	defer a.gap.Unlock()
	missing := a.missing()
	if len(missing) > 0 {
		if err := a.ring.load(); err != nil {
			return err
		}
		missing = a.missing()
	}
	if len(missing) == 0 && len(a.lacked) == 0 {
		return a.sweep()
	}
	if !slices.Equal(missing, a.lacked) {
		a.o.Log.Warn("what this replica lacks of the keys of the trust bundle in force has changed (give every replica the same keys)", zap.Strings("missing", missing))
	}
	if err := a.o.DB.TellKeyGap(ctx, a.replica, missing); err != nil {
		return err
	}
	a.lacked = missing
	return nil
}

// Gaps are the replicas that lack keys of the bundle in force, by name. Whoever has just
// begun a rotation sees none yet: each tells as soon as it has heard.
func (a *Authority) Gaps(ctx context.Context) ([]store.KeyGap, error) {
	return a.o.DB.KeyGaps(ctx, a.o.DB.Now().Add(-gapLife))
}

// checkGaps refuses while a replica lacks the keys that it is to go on with.
func (a *Authority) checkGaps(ctx context.Context) error {
	gaps, err := a.Gaps(ctx)
	if err != nil || len(gaps) == 0 {
		return err
	}
	var each []string
	for _, g := range gaps {
		each = append(each, g.Replica.Name+" lacks "+strings.Join(g.Lacks, " and "))
	}
	return broker.Errorf(broker.Refused, "replica_lacks_keys", "cannot finish the rotation: %s (copy the directory keys of a broker that has them there; they are read within %s)", strings.Join(each, ", "), rereadEvery)
}

// sweep takes keys out of the ring that the bundle retired: when this replica or another
// has finished a rotation, and after a crash between the two. A key newer than those of the
// bundle stays: it is of a rotation that was interrupted.
func (a *Authority) sweep() error {
	for _, use := range rotatable {
		keys := live(a.current.Load().bundle, use, a.o.Now())
		passed := false
		for _, k := range a.ring.keys(use) { // newest first
			named := slices.ContainsFunc(keys, func(c pki.BundleKey) bool { return c.ID == k.ID })
			if passed && !named {
				if err := a.ring.retire(use, k.ID); err != nil {
					return err
				}
			}
			passed = passed || named
		}
	}
	return nil
}

// missing names the keys of the bundle in force that are not in the ring. A
// release key is never kept on a broker.
func (a *Authority) missing() []string {
	var names []string
	for _, use := range rotatable {
		for _, k := range live(a.current.Load().bundle, use, a.o.Now()) {
			if _, ok := a.ring.find(use, k.ID); !ok {
				names = append(names, fmt.Sprintf("%s key %s", use, k.ID))
			}
		}
	}
	return names
}
