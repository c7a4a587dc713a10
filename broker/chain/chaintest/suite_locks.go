package chaintest

import (
	"errors"
	"fmt"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

func insertedLocks(s *subject) {
	a, b := newRun("a", s.Store.Now()), newRun("b", s.Store.Now())
	a.Locks, b.Locks = []string{"hostname/dc1/h", "ipmi/dc1/1"}, []string{"ipmi/dc1/2"}
	s.ok(s.Insert(s.ctx, []chain.NewRun{a, b}, nil))
	c, d := newRun("c", s.Store.Now()), newRun("d", s.Store.Now())
	c.Locks, d.Locks = []string{"ipmi/dc1/3"}, []string{"ipmi/dc1/2", "hostname/dc1/h"}
	err := s.Insert(s.ctx, []chain.NewRun{c, d}, &chain.Batch{ID: "b1", Parallel: 1})
	l, ok := errors.AsType[*chain.Locked](err)
	if !ok || len(l.Taken) != 2 {
		s.Fatalf("inserted: %v", err)
	}
	all, err := s.Runs(s.ctx, chain.Filter{})
	s.ok(err)
	if _, err := s.Batch(s.ctx, "b1"); len(all) != 2 || err == nil {
		s.Fatalf("%d runs, batch: %v", len(all), err)
	}
	c.Locks = append(c.Locks, "ipmi/dc1/4")
	s.ok(s.Insert(s.ctx, []chain.NewRun{c}, &chain.Batch{ID: "b1", Parallel: 1}))
	if err := s.Insert(s.ctx, []chain.NewRun{c}, nil); code(err) != "run_exists" {
		s.Fatalf("inserted twice: %v", err)
	}
	if err := s.Insert(s.ctx, nil, &chain.Batch{ID: "b1", Parallel: 1}); code(err) != "batch_exists" {
		s.Fatalf("inserted twice: %v", err)
	}
}

func endingLocks(s *subject) {
	for i, status := range []chain.Status{chain.FailedRetryable, chain.FailedManual, chain.Completed, chain.Cancelled, chain.Reconciled} {
		id := fmt.Sprint("r", i)
		n := newRun(id, s.Store.Now())
		n.Locks = []string{"node/" + id}
		s.ok(s.Insert(s.ctx, []chain.NewRun{n}, nil))
		r := s.claim(id)
		r.Status = status
		s.put(r, 0)
		n.ID = id + "-next"
		n.DueAt = s.Store.Now().Add(time.Hour)
		if err := s.Insert(s.ctx, []chain.NewRun{n}, nil); (err == nil) != status.Ended() {
			s.Fatalf("%s: the next run with its lock: %v", status, err)
		}
	}
}
