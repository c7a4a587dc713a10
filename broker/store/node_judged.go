package store

import (
	"context"
	"slices"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// JudgedNodes judges the nodes of a SKU at sites (nil: all) that are not deleted, in the order in
// which a placement looks at them. The number of queries grows with hundreds of nodes, not with each
// node. The reasons have codes and next actions; their messages lack what is for people.
func (db *DB) JudgedNodes(ctx context.Context, sku string, sites []string) ([]broker.JudgedNode, error) {
	var w sqlkit.Where
	w.Add("sku = ?", sku)
	w.Add("status <> ?", string(broker.Deleted))
	sqlkit.In(&w, "site", sites)
	at := map[string]int{}
	out, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n broker.JudgedNode, err error) {
		err = row.Scan(&n.ID, &n.Hostname, &n.Site)
		at[n.ID] = len(at)
		return n, err
	}, `SELECT id, hostname, site FROM nodes`+w.String()+` ORDER BY site, id`, w.Args...)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(out, 500) {
		ids := make([]string, len(some))
		for i, n := range some {
			ids[i] = n.ID
		}
		judged, err := handouts(ctx, db.reader(), ids, db.Now())
		if err != nil {
			return nil, err
		}
		for _, h := range judged {
			out[at[h.Node.ID]].Reasons = h.Reasons("", "")
		}
	}
	return out, nil
}
