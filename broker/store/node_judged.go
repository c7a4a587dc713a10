package store

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// judgedAtOnce is how many queries judge a fleet at once: half of the connections that SQLite's
// readers have.
const judgedAtOnce = sqliteReaders / 2

// JudgedNodes judges the nodes of a SKU at sites (nil: all) that are not deleted, in the order in
// which a placement looks at them. The number of queries grows with hundreds of nodes, not with each
// node. The reasons have codes and next actions; their messages lack what is for people.
func (db *DB) JudgedNodes(ctx context.Context, sku string, sites []string) ([]broker.JudgedNode, error) {
	var w sqlkit.Where
	w.Add("sku = ?", sku)
	w.Add("status <> ?", string(broker.Deleted))
	sqlkit.In(&w, "site", sites)
	out, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n broker.JudgedNode, err error) {
		err = row.Scan(&n.ID, &n.Hostname, &n.Site)
		return n, err
	}, `SELECT id, hostname, site FROM nodes`+w.String()+` ORDER BY site, id`, w.Args...)
	if err != nil {
		return nil, err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(judgedAtOnce)
	for some := range slices.Chunk(out, 500) {
		work.Go(func() error { return db.judge(ctx, some) })
	}
	return out, work.Wait()
}

// judge sets the reasons of some nodes.
func (db *DB) judge(ctx context.Context, some []broker.JudgedNode) error {
	ids, at := make([]string, len(some)), make(map[string]int, len(some))
	for i, n := range some {
		ids[i], at[n.ID] = n.ID, i
	}
	all, err := handouts(ctx, db.reader(), ids, db.Now())
	for _, h := range all {
		some[at[h.Node.ID]].Reasons = h.Reasons("", "")
	}
	return err
}
