package records

import (
	"slices"
	"testing"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/store"
)

func TestListsHaveTheProjectsOwnNewestFirst(t *testing.T) {
	each(t, func(s *site) {
		var ids []string
		for range 3 {
			ids = append(ids, s.begun(s.onLab()).ID)
			s.settle()
		}
		slices.Reverse(ids)
		page, next, err := s.db.Operations(s.Context(), store.OperationFilter{ProjectID: "p-1", Limit: 2})
		s.ok(err)
		if len(page) != 2 || page[0].ID != ids[0] || next != ids[1] {
			t.Errorf("%d, next %s of %q", len(page), next, ids)
		}
		page, next, err = s.db.Operations(s.Context(), store.OperationFilter{ProjectID: "p-1", After: next, Limit: 2, Statuses: []broker.OperationStatus{broker.OperationSucceeded}})
		s.ok(err)
		if len(page) != 1 || page[0].ID != ids[2] || next != "" {
			t.Errorf("%d, next %s of %q", len(page), next, ids)
		}
		first, err := s.db.Operation(s.Context(), ids[2])
		s.ok(err)
		last, err := s.db.Operation(s.Context(), ids[0])
		s.ok(err)
		for name, row := range map[string]struct {
			f    store.OperationFilter
			want int
		}{
			"a definition":           {store.OperationFilter{Operation: "demo.look@v1"}, 3},
			"another version":        {store.OperationFilter{Operation: "demo.look@v2"}, 0},
			"a type":                 {store.OperationFilter{Operation: "demo.look"}, 3},
			"a type of another name": {store.OperationFilter{Operation: "demo.loo"}, 0},
			"no wildcards":           {store.OperationFilter{Operation: "demo_look"}, 0},
			"its allocation":         {store.OperationFilter{AllocationID: "alc-1"}, 3},
			"another allocation":     {store.OperationFilter{AllocationID: "alc-2"}, 0},
			"from the last on":       {store.OperationFilter{From: last.RequestedAt}, 1},
			"before the last":        {store.OperationFilter{To: last.RequestedAt}, 2},
			"between":                {store.OperationFilter{From: first.RequestedAt.Add(time.Second), To: last.RequestedAt}, 1},
		} {
			row.f.ProjectID = "p-1"
			page, _, err := s.db.Operations(s.Context(), row.f)
			if s.ok(err); len(page) != row.want {
				s.Errorf("%s: %d operations, want %d", name, len(page), row.want)
			}
		}
		for _, of := range []string{"p-2", "p-none"} {
			page, _, err = s.db.Operations(s.Context(), store.OperationFilter{ProjectID: of, After: ids[0]})
			if s.ok(err); len(page) != 0 {
				t.Errorf("%s sees %+v", of, page)
			}
			_, err = s.db.ProjectOperation(s.Context(), of, ids[0])
			s.refused(err, "operation_not_found")
		}
	})
}
