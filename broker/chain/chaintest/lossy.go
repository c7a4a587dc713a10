package chaintest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hostler/hostler/broker/chain"
)

// ErrKilled is the error of a Lossy store where a broker would have died.
var ErrKilled = errors.New("killed")

// Fate says what happens to a call.
type Fate int

// The fates.
const (
	Done Fate = iota
	Lost      // the call never reached the store
	Mute      // the call was executed, and the answer was lost
)

// Lossy is a store whose broker dies, or loses its connection, at calls of the test's choice.
// Claim, Renew and Save are affected.
type Lossy struct {
	chain.Store
	Fate func(call int) Fate // calls count from 0
	// Claimed is called with each run whose step is about to begin.
	Claimed func(r chain.Record)
	// Saved is called with each save that reached the store, and its result.
	Saved func(c chain.Change, err error)

	mu    sync.Mutex
	calls int
}

// Calls is the number of calls so far.
func (l *Lossy) Calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

func (l *Lossy) fate() Fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.Fate == nil {
		return Done
	}
	return l.Fate(l.calls - 1)
}

func (l *Lossy) do(f func() error) error {
	fate := l.fate()
	if fate == Lost {
		return ErrKilled
	}
	if err := f(); err != nil {
		return err
	}
	if fate == Mute {
		return ErrKilled
	}
	return nil
}

// Claim implements chain.Store.
func (l *Lossy) Claim(ctx context.Context, c chain.Claim) (r *chain.Record, err error) {
	err = l.do(func() (err error) {
		r, err = l.Store.Claim(ctx, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	if r != nil && l.Claimed != nil {
		l.Claimed(*r)
	}
	return r, nil
}

// Renew implements chain.Store.
func (l *Lossy) Renew(ctx context.Context, r *chain.Record, lease time.Duration) error {
	return l.do(func() error { return l.Store.Renew(ctx, r, lease) })
}

// Save implements chain.Store.
func (l *Lossy) Save(ctx context.Context, c chain.Change) error {
	return l.do(func() error {
		err := l.Store.Save(ctx, c)
		if l.Saved != nil {
			l.Saved(c, err)
		}
		return err
	})
}
