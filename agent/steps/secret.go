package steps

import (
	"context"
	"sync"
)

// Secret is a handle of a credential. The credential is in the memory of the agent alone, until Wipe
// overwrites it. Its methods may be called concurrently.
type Secret struct {
	mu    sync.Mutex
	value []byte
	mint  func(context.Context) ([]byte, error)
}

// NewSecret holds a credential. mint gets a fresh one when this one has expired; the handle owns value.
func NewSecret(value []byte, mint func(context.Context) ([]byte, error)) *Secret {
	return &Secret{value: value, mint: mint}
}

// Use calls do with the credential. do must keep neither the slice nor a copy of it.
func (s *Secret) Use(do func(value []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do(s.value)
}

// Renew replaces the credential by a fresh one, and overwrites the old one.
func (s *Secret) Renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh, err := s.mint(ctx)
	if err != nil {
		return err
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
	s.value = nil
}
