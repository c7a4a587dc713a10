package steps

import (
	"bytes"
	"context"
	"errors"
	"sync"
)

// errWiped is the error of a handle whose credential is overwritten.
var errWiped = errors.New("the credential is wiped: its task has ended")

// Secret is a handle of a credential. The credential is in the memory of the agent alone, until Wipe
// overwrites it. Its methods may be called concurrently.
type Secret struct {
	mu    sync.Mutex
	value []byte
	wiped bool
	mint  func(context.Context) ([]byte, error)
}

// NewSecret holds a credential. mint gets a fresh one when this one has expired; the handle owns value.
func NewSecret(value []byte, mint func(context.Context) ([]byte, error)) *Secret {
	return &Secret{value: value, mint: mint}
}

// Use calls do with a copy of the credential, and overwrites the copy afterwards. do must keep neither
// the slice nor a copy of it. A do that hangs does not keep Wipe from its work.
func (s *Secret) Use(do func(value []byte) error) error {
	s.mu.Lock()
	value, wiped := bytes.Clone(s.value), s.wiped
	s.mu.Unlock()
	if wiped {
		return errWiped
	}
	defer clear(value)
	return do(value)
}

// Renew replaces the credential by a fresh one, and overwrites the old one.
func (s *Secret) Renew(ctx context.Context) error {
	fresh, err := s.mint(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wiped {
		clear(fresh)
		return errWiped
	}
	clear(s.value)
	s.value = fresh
	return nil
}

// Wipe overwrites the credential. It may be called more than once.
func (s *Secret) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.value)
	s.value, s.wiped = nil, true
}
