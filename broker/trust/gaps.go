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

// gapLife is the time for which a replica's report of missing keys counts. A replica that has gone
// does not start again without the keys.
const gapLife = 6 * rereadEvery

func thisReplica() store.Replica {
	name, err := os.Hostname()
	if err != nil {
		name = "unnamed"
	}
	return store.Replica{ID: rand.Text(), Name: name}
}

// complete reads the ring again while keys of the bundle in force are missing, until an operator
// has copied them here, and reports the missing keys to the other replicas. A replica without
// missing keys removes the keys that the bundle retired.
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
		a.o.Log.Warn("the list of keys that this replica lacks has changed (give every replica the same keys)",
			zap.Strings("missing", missing))
	}
	if err := a.o.DB.TellKeyGap(ctx, a.replica, missing); err != nil {
		return err
	}
	a.lacked = missing
	return nil
}

// Gaps returns the replicas that lack keys of the bundle in force, by name. Just after the start of
// a rotation Gaps is empty: each replica reports once it has noticed the new bundle.
func (a *Authority) Gaps(ctx context.Context) ([]store.KeyGap, error) {
	return a.o.DB.KeyGaps(ctx, a.o.DB.Now().Add(-gapLife))
}

// checkGaps refuses while a replica lacks keys that it will need.
func (a *Authority) checkGaps(ctx context.Context) error {
	gaps, err := a.Gaps(ctx)
	if err != nil || len(gaps) == 0 {
		return err
	}
	var each []string
	for _, g := range gaps {
		each = append(each, g.Replica.Name+" lacks "+strings.Join(g.Lacks, " and "))
	}
	return broker.Errorf(broker.Refused, "replica_lacks_keys",
		"cannot finish the rotation: %s (copy the directory keys from a broker that has them; the broker reads new keys within %s)",
		strings.Join(each, ", "), rereadEvery)
}

// sweep removes keys from the ring that the bundle retired, after a rotation finished by this
// replica or another, and after a crash in between. A key newer than the bundle's keys stays: it
// belongs to an interrupted rotation.
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

// missing names the keys of the bundle in force that are missing in the ring. Release keys are
// never on a broker.
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
