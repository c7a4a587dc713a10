package signin_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/clientfile"
	"github.com/hostler/hostler/broker/cmd/hostler/signin"
)

// A program that was stopped in a renewal, as by Ctrl-Z, keeps the others waiting for a while.
func TestAWaitForAnothersRenewalEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dc1.sign-in")
	kept := &clientfile.SignIn{TokenEndpoint: "https://id.example", IDToken: "e30.eyJleHAiOjE4MDAwMDAwMzB9.x", RefreshToken: "r"} // {"exp":1800000030}
	if err := kept.Write(path); err != nil {
		t.Fatal(err)
	}
	stopped, err := os.Create(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stopped.Close() }()
	if err := syscall.Flock(int(stopped.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	at := func(sec int64) *signin.Session {
		return signin.Open(path, func() time.Time { return time.Unix(sec, 0) })
	}
	synctest.Test(t, func(t *testing.T) {
		if token, err := at(1_800_000_000).Token(t.Context()); err != nil || token != kept.IDToken {
			t.Errorf("the token has not ended: %q, %v", token, err)
		}
		begun := time.Now()
		if _, err := at(1_800_000_060).Token(t.Context()); broker.AsError(err).Code != "sign_in_busy" || time.Since(begun) != 20*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if err := at(1_800_000_060).Keep(t.Context(), kept); broker.AsError(err).Code != "sign_in_busy" {
			t.Errorf("a new sign-in: %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, err := at(1_800_000_060).Token(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Ctrl-C: %v", err)
		}
	})
}

// A file that cannot be written costs no refresh token: the provider is not asked.
func TestAFileThatCannotBeWrittenCostsNoRefreshToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 250)) // no temporary file has a longer name
	kept := &clientfile.SignIn{TokenEndpoint: "https://127.0.0.1:1", IDToken: "e30.eyJleHAiOjE4MDAwMDAwMzB9.x", RefreshToken: "r"}
	raw, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(sec int64) *signin.Session {
		return signin.Open(path, func() time.Time { return time.Unix(sec, 0) })
	}
	if _, err := at(1_800_000_060).Token(t.Context()); broker.AsError(err).Code != "config_unwritable" {
		t.Error(err)
	}
	if token, err := at(1_800_000_000).Token(t.Context()); err != nil || token != kept.IDToken {
		t.Errorf("the token has not ended: %q, %v", token, err)
	}
}
