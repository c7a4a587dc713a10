package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/chain"
	"github.com/hostler/hostler/broker/internal/periodic"
	"github.com/hostler/hostler/broker/store"
	"github.com/hostler/hostler/broker/turnover"
)

// automaticEvery is how often Automatic looks for nodes that nobody uses.
const automaticEvery = 15 * time.Second

// Automatic begins turnovers of nodes that their tenants have left, of unused nodes whose certificate has
// run out or no longer suffices by the site's policy, and of free nodes whose certificate soon runs out, if the default profile of the node's site asks for it. Nothing begins
// during a freeze or a hold, and never more than the policy's limit at a site. Turnovers of releases count,
// and a release that waits for one goes first. A node at no site on
// record has no policy that could forbid it, and is left to a person. The state is read from the
// records, and the id of a run is the same for every start, so a leader may die at any point. Run it
// in the leading process.
type Automatic struct {
	Starts *Starts
	Period time.Duration // between two looks; zero: automaticEvery
	Log    *zap.Logger
}

// Run looks from time to time, until ctx ends.
func (a *Automatic) Run(ctx context.Context) {
	periodic.Work{
		Every: cmp.Or(a.Period, automaticEvery), Turn: a.Look, Log: a.Log, Cannot: "cannot start turnovers of nodes that nobody uses",
	}.Run(ctx)
}

// Look begins the due turnovers once, site by site.
func (a *Automatic) Look(ctx context.Context) error {
	all, err := a.Starts.DB.LeftNodes(ctx)
	if err != nil {
		return err
	}
	expired, err := a.Starts.DB.ExpiredNodes(ctx)
	if err != nil {
		return err
	}
	below, err := a.Starts.DB.BelowPolicyNodes(ctx)
	if err != nil {
		return err
	}
	ending, err := a.Starts.DB.EndingNodes(ctx, turnover.RenewFrom)
	if err != nil {
		return err
	}
	all = slices.Concat(all, expired, below, ending) // whom nobody can use goes first
	var sites []string
	at := map[string][]store.IdleNode{}
	for _, n := range all {
		if len(at[n.Site]) == 0 {
			sites = append(sites, n.Site)
		}
		at[n.Site] = append(at[n.Site], n)
	}
	for _, site := range sites {
		err = errors.Join(err, a.lookAt(ctx, site, at[site]))
	}
	return err
}

// lookAt begins turnovers at a site, up to the limit.
func (a *Automatic) lookAt(ctx context.Context, site string, idle []store.IdleNode) error {
	db := a.Starts.DB
	room, err := a.room(ctx, site)
	if err != nil || room <= 0 {
		return err
	}
	holds, err := db.StandingHolds(ctx, []string{site})
	if err != nil || len(holds) > 0 { // a freeze, or an unreachable site
		return err
	}
	stock := stock{db: db, site: site}
	for _, n := range idle {
		if room <= 0 {
			break
		}
		begun, failed := a.begin(ctx, n, &stock)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("node %s: %w", n.NodeID, failed))
		}
		if begun {
			room--
		}
	}
	return err
}

// room is how many turnovers may begin at a site. Without a site on record, or at a site where
// nothing new begins, there are none.
func (a *Automatic) room(ctx context.Context, name string) (int, error) {
	db := a.Starts.DB
	site, err := db.Site(ctx, name)
	if err != nil || site.Status != broker.SiteActive {
		return 0, ignoreNotFound(err)
	}
	profile, err := db.Profile(ctx, site.ID, site.DefaultProfileID)
	if err != nil || profile.Status != broker.SiteActive || !profile.Policy.TurnoverAutomatic {
		return 0, err
	}
	p, err := a.Starts.places(ctx, name, nil)
	return profile.Policy.AutomaticTurnoversAtOnce - p.Open - p.Ahead, err
}

// begin starts the turnover of a node, if the node still waits for it. The first stage checks the
// status and the allocations again in the transaction that takes the node.
// A node that may be handed out is taken only if its SKU can spare it.
func (a *Automatic) begin(ctx context.Context, idle store.IdleNode, stock *stock) (begun bool, err error) {
	db := a.Starts.DB
	n, err := db.Node(ctx, idle.NodeID)
	if err != nil {
		return false, err
	}
	h, err := db.Handout(ctx, n)
	if err != nil {
		return false, err
	}
	at, err := a.Starts.Place(ctx, n, "")
	if err != nil {
		return false, err
	}
	past, err := a.Starts.Past(ctx, n, at.Policy.ModePolicy, h.Occupants)
	if err != nil {
		return false, err
	}
	req, due := turnover.AutomaticRequest(h, at, past)
	free := len(h.Reasons("", "")) == 0
	if due && free {
		due, err = stock.spares(ctx, n.SKU)
	}
	if !due || err != nil {
		return false, err
	}
	t, locks, err := turnover.New(n, at, req)
	if err != nil {
		return false, err
	}
	start := NewStart(n, t, locks, Requester{Name: broker.System.Name})
	start.ID = turnover.AutomaticOf(n.ID, idle.Since)
	if free {
		start.Effects = []any{broker.TakeFree{NodeID: n.ID}}
	}
	waits, err := a.Starts.StartInPlace(ctx, start, at.Policy.AutomaticTurnoversAtOnce, nil)
	if _, taken := errors.AsType[*chain.EffectRefused](err); taken {
		return false, nil // a tenant was faster
	}
	if begun = err == nil && waits == ""; begun && free {
		stock.takes(n.SKU)
	}
	return begun, ignoreExists(err)
}

func ignoreNotFound(err error) error {
	if err != nil && broker.AsError(err).Kind == broker.NotFound {
		return nil
	}
	return err
}
