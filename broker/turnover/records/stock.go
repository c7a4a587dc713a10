package records

import (
	"context"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

// stock counts the nodes of a site by SKU and availability, as on record at the first question.
type stock struct {
	db    *store.DB
	site  string
	count map[string]map[broker.Availability]int // by SKU; nil: not read yet
}

// spares reports whether an available node of a SKU may be turned over: afterwards at least as many nodes
// of the SKU are available as are in turnover. So the last available node is left to the tenants.
func (s *stock) spares(ctx context.Context, sku string) (bool, error) {
	if s.count == nil {
		all, err := s.db.CountAvailability(ctx, []string{s.site})
		if err != nil {
			return false, err
		}
		s.count = map[string]map[broker.Availability]int{}
		for _, c := range all {
			if s.count[c.SKU] == nil {
				s.count[c.SKU] = map[broker.Availability]int{}
			}
			s.count[c.SKU][c.Word] += c.Nodes
		}
	}
	of := s.count[sku]
	return of[broker.Available]-1 >= of[broker.InTurnover]+1, nil
}

// takes counts an available node as in turnover.
func (s *stock) takes(sku string) {
	s.count[sku][broker.Available]--
	s.count[sku][broker.InTurnover]++
}
