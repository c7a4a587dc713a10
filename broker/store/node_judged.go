package store

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// judgedAtOnce is how many queries judge a fleet at once: half of the connections that SQLite's
// readers have.
const judgedAtOnce = sqliteReaders / 2

// judgedTogether is how many nodes a query judges.
const judgedTogether = 1000

// JudgedNodes judges the nodes of a SKU at sites (nil: all) that are not deleted, in the order in
// which a placement looks at them. A few queries judge each thousand nodes of a site. The reasons have codes and next actions; their messages lack what is for people.
func (db *DB) JudgedNodes(ctx context.Context, sku string, sites []string) ([]broker.JudgedNode, error) {
	var w sqlkit.Where
	w.Add("sku = ?", sku)
	w.Add("status <> ?", string(broker.Deleted))
	sqlkit.In(&w, "site", sites)
	out, err := sqlkit.Collect(ctx, db.reader(), func(row sqlkit.Row) (n broker.JudgedNode, err error) {
		err = row.Scan(&n.ID, &n.Hostname, &n.Site, &n.Image, &n.Installable, sqlkit.ScanJSON(&n.Labels),
			&n.Place.Zone, &n.Place.Room, &n.Place.Row, &n.Place.Rack, &n.Place.Domain)
		return n, err
	}, `SELECT id, hostname, site, COALESCE((SELECT i.image FROM node_images i WHERE i.node_id = nodes.id AND i.epoch = nodes.epoch), ''),
			`+installable+`, labels, place_zone, place_room, place_row, place_rack, place_domain
		FROM nodes`+w.String()+` ORDER BY site, id`, w.Args...)
	if err != nil {
		return nil, err
	}
	seen := make([]bool, len(out))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(judgedAtOnce)
	for from := 0; from < len(out); {
		to := min(from+judgedTogether, len(out))
		for to > from+1 && out[to-1].Site != out[from].Site {
			to--
		}
		some, seenOfSome := out[from:to], seen[from:to]
		work.Go(func() error { return db.judge(ctx, sku, some, seenOfSome) })
		from = to
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	left := 0 // without the nodes that were deleted, or given another SKU, between the two looks
	for i, n := range out {
		if seen[i] {
			out[left] = n
			left++
		}
	}
	return out[:left], nil
}

// readAtOnce is how many certificates a query reads. They were issued a moment ago; after a change of a policy
// there may be more, which the leading broker judges soon.
const readAtOnce = 10

// judge sets the reasons of nodes of one site that follow each other, and which of them it has seen. The
// range of their ids selects them: hundreds of ids as arguments take longer than the judgement.
func (db *DB) judge(ctx context.Context, sku string, some []broker.JudgedNode, seen []bool) error {
	at := make(map[string]int, len(some))
	for i, n := range some {
		at[n.ID] = i
	}
	var w sqlkit.Where
	w.Add("nodes.sku = ?", sku)
	w.Add("nodes.site = ?", some[0].Site)
	w.Add("nodes.id >= ?", some[0].ID)
	w.Add("nodes.id <= ?", some[len(some)-1].ID)
	w.Add("nodes.status <> ?", string(broker.Deleted))
	all, err := handouts(ctx, db.reader(), w, db.Now())
	if err == nil {
		unjudged := stale(all)
		err = judgeFiles(ctx, db.reader(), db.judgeFile, unjudged[:min(len(unjudged), readAtOnce)])
	}
	for _, h := range all {
		if i, known := at[h.Node.ID]; known { // a node may have been added between the two looks
			some[i].Reasons, seen[i] = h.Reasons("", ""), true
		}
	}
	return err
}
