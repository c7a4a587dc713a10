package steps

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/hostler/hostler/agent/host/hosttest"
)

func TestACredentialIsMintedIntoAHandleAndIsGoneOnceWiped(t *testing.T) {
	h, _ := hosttest.Box(t)
	s := aStep(t, h, "credential.mint", Args{"type": "s3_read", "scope": "models"})
	var memory [][]byte
	s.Mint = func(context.Context) ([]byte, error) {
		memory = append(memory, []byte{'k', 'e', 'y', byte('0' + len(memory))})
		return memory[len(memory)-1], nil
	}
	proof, err := do(t, s)
	hosttest.OK(t, err)
	if proof.Output != "" || bytes.Contains([]byte(proof.Message), []byte("key0")) {
		t.Errorf("%+v", proof)
	}
	var lent []byte
	use := func() (got string, err error) {
		err = proof.Secret.Use(func(value []byte) error { lent, got = value, string(value); return nil })
		return got, err
	}
	if got, err := use(); got != "key0" || err != nil || !bytes.Equal(lent, make([]byte, 4)) {
		t.Errorf("%q, %v; what was lent is now %q", got, err, lent)
	}
	hosttest.OK(t, proof.Secret.Renew(t.Context()))
	if got, err := use(); got != "key1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	// A use that hangs does not keep the credential.
	in, out := make(chan struct{}), make(chan struct{})
	go func() { _ = proof.Secret.Use(func([]byte) error { close(in); <-out; return nil }) }()
	<-in
	proof.Secret.Wipe()
	close(out)
	if _, err := use(); err == nil {
		t.Error("a wiped credential can be used")
	}
	if err := proof.Secret.Renew(t.Context()); err == nil {
		t.Error("a wiped credential is renewed")
	}
	for i, m := range memory {
		if !bytes.Equal(m, make([]byte, 4)) {
			t.Errorf("credential %d is in memory: %q", i, m)
		}
	}
}

func TestWhatTheBrokerDoesNotMintIsNoCredential(t *testing.T) {
	h, _ := hosttest.Box(t)
	s := aStep(t, h, "credential.mint", Args{"type": "s3_read", "scope": "models"})
	refused := errors.New("refused")
	for _, err := range []error{refused, nil} {
		s.Mint = func(context.Context) ([]byte, error) { return nil, err }
		if proof, err := do(t, s); err == nil || proof.Secret != nil {
			t.Errorf("%+v", proof)
		}
	}
}
