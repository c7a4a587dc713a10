package reconcile

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/maas"
	"github.com/hostler/hostler/broker/store"
)

const (
	// Every is the time between two looks at a site.
	Every = 5 * time.Minute
	// defaultCheck is the default time between two checks whether a site is due or was requested.
	defaultCheck = 2 * time.Second
	// alertAfter is how many looks in a row must fail before an alert is raised.
	alertAfter = 2
)

// Reseeder has a node's agent run node.hw_sync_reseed, once for each key.
type Reseeder interface {
	Reseed(ctx context.Context, nodeID, key string, interval time.Duration) (taskID string, err error)
}

// Decommissioner starts the run that takes a retired node out of the fleet and gives its machine
// back, once for each id. Start refuses a node that is no longer as it was judged, that a tenant is
// on, or that a run has already.
type Decommissioner interface {
	Start(ctx context.Context, judged broker.Node, id, reason string) (runID string, err error)
}

// Records are the broker's own records, as far as this package reads and writes them. *store.DB
// implements them; this package relies on the promises of its methods of these names.
type Records interface {
	Views
	Looks
	Drifts

	Now() time.Time
	Sites(ctx context.Context, names []string) ([]broker.Site, error)
}

var _ Records = (*store.DB)(nil)

// Watch looks at every site from time to time. Run one Watch in the leading process.
type Watch struct {
	DB         Records
	Regions    *maas.Sites
	Now        func() time.Time
	CheckEvery time.Duration // time between two checks whether a site is due or was requested; zero: 2 s
	Log        *zap.Logger

	Reseed       Reseeder // nil: no node is asked to reseed
	Decommission Decommissioner

	mu    sync.Mutex
	sites map[string]*memory // by site id
	work  sync.WaitGroup
}

// memory is the state of a site between two looks.
type memory struct {
	busy       sync.Mutex // one look at a time
	next       time.Time
	candidates map[string]candidate // by node
	syncs      syncs
}

// candidate is the step that a first observation leads to.
type candidate struct {
	what string
	at   time.Time
}

func (w *Watch) memory(site broker.Site) *memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sites == nil {
		w.sites = map[string]*memory{}
	}
	m := w.sites[site.ID]
	if m == nil {
		m = &memory{candidates: map[string]candidate{}}
		w.sites[site.ID] = m
	}
	return m
}

// Run looks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	defer w.work.Wait()
	periodic.Work{
		Every: cmp.Or(w.CheckEvery, defaultCheck), AtOnce: true, Turn: w.due, Log: w.Log,
		Cannot: "cannot list the sites that are due for reconciliation",
	}.Run(ctx)
}

// due begins a look at each site that is due or was requested. A site that answers slowly delays no
// other.
func (w *Watch) due(ctx context.Context) error {
	sites, err := w.DB.Sites(ctx, nil)
	if err != nil {
		return err
	}
	looks, err := w.DB.ReconcileLooks(ctx, nil)
	if err != nil {
		return err
	}
	asked := map[string]bool{}
	for _, l := range looks {
		asked[l.Site] = l.RequestedAt.After(l.LookedAt)
	}
	for _, site := range sites {
		mem := w.memory(site)
		if site.Status != broker.SiteActive || site.APITokenSetAt.IsZero() || !mem.busy.TryLock() {
			continue
		}
		if !asked[site.Name] && w.Now().Before(mem.next) {
			mem.busy.Unlock()
			continue
		}
		w.work.Go(func() {
			defer mem.busy.Unlock()
			if err := w.look(ctx, site, mem, asked[site.Name]); err != nil && ctx.Err() == nil {
				w.Log.Warn("cannot reconcile a site", zap.String("site", site.Name), zap.Error(err))
			}
		})
	}
	return nil
}

// Look looks at one site now.
func (w *Watch) Look(ctx context.Context, site broker.Site) error {
	mem := w.memory(site)
	mem.busy.Lock()
	defer mem.busy.Unlock()
	return w.look(ctx, site, mem, true)
}
