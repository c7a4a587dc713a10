package store

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store/sqlkit"
)

// certificateEnds are the ends of certificates by the policies in force, for queries. verdict.into computes the
// same for the judge.
type certificateEnds struct{ policies map[string]*policyInForce }

func (db *DB) certificateEnds(ctx context.Context) (certificateEnds, error) {
	all, err := policiesInForce(ctx, db.reader(), nil)
	return certificateEnds{all}, err
}

// at is the end of certificate c of a node. Names of sites are added to the arguments of w.
func (e certificateEnds) at(w *sqlkit.Where) string {
	usual := newPolicyInForce(broker.DefaultPolicy()).valid()
	byPolicy := "c.issued_at + " + e.bySite(w, usual.Microseconds(), func(p *policyInForce) int64 { return p.valid().Microseconds() })
	return earlier("c.valid_until", byPolicy)
}

// since is since when certificate c of a node has run out: its end, or a later change of the policy that gave
// it that end.
func (e certificateEnds) since(w *sqlkit.Where) string {
	end := e.at(w)
	changed := e.bySite(w, 0, func(p *policyInForce) int64 { return sqlkit.Micros(p.since) })
	return earlier("c.valid_until", "CASE WHEN "+end+" < "+changed+" THEN "+changed+" ELSE "+end+" END")
}

func earlier(a, b string) string {
	return "CASE WHEN " + a + " < " + b + " THEN " + a + " ELSE " + b + " END"
}

// bySite is a number of the policy of a node's site. usual is that of a node without one.
func (e certificateEnds) bySite(w *sqlkit.Where, usual int64, of func(*policyInForce) int64) string {
	var cases strings.Builder
	for _, site := range slices.Sorted(maps.Keys(e.policies)) {
		if n := of(e.policies[site]); n != usual {
			w.Args = append(w.Args, site)
			cases.WriteString(" WHEN $" + strconv.Itoa(len(w.Args)) + " THEN " + strconv.FormatInt(n, 10))
		}
	}
	if cases.Len() == 0 {
		return strconv.FormatInt(usual, 10)
	}
	return "(CASE nodes.site" + cases.String() + " ELSE " + strconv.FormatInt(usual, 10) + " END)"
}
