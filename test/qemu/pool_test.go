package qemu

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// turns runs cases of a pool whose guests cannot be prepared, each for a second, and
// returns their order and how many ran at a time.
func turns(t *testing.T, p *Pool, names ...string) (order []string, most int) {
	var mu sync.Mutex
	now := 0
	for _, name := range names {
		go func() {
			p.take(name)
			mu.Lock()
			order = append(order, name)
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			p.release()
		}()
		synctest.Wait() // they come in their order
	}
	<-time.After(time.Minute)
	return order, most
}

func TestTheLongestOfThoseWhoWaitGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prepared := make(chan struct{})
		p := NewPool(func(context.Context) (*Guest, error) { <-prepared; return nil, errors.New("no guests here") }, "long", "longer than most")
		for range AtOnce() - 1 { // preparing has a turn
			p.take("")
		}
		go func() {
			<-time.After(time.Second)
			close(prepared)
		}()
		if got, most := turns(t, p, "b", "longer than most", "a", "long"); most != 1 || !slices.Equal(got, []string{"long", "longer than most", "b", "a"}) {
			t.Errorf("%d at a time, in the order %q", most, got)
		}
	})
}

func TestNoMoreThanTheirNumberRunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(func(context.Context) (*Guest, error) { return nil, errors.New("no guests here") })
		defer p.Close()
		if got, most := turns(t, p, "a", "b", "c", "d", "e"); len(got) != 5 || most != AtOnce() {
			t.Errorf("%q ran, %d at a time", got, most)
		}
	})
}
