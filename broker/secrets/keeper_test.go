package secrets_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/secrets"
	"github.com/hostler/hostler/broker/secrets/secretstest"
)

func TestFilesKeepWhatAKeeperPromises(t *testing.T) {
	files, err := secrets.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	secretstest.Run(t, files)
}

func TestOnlyAKeeperThatCannotAnswerIsUnreachable(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{context.Canceled, false},
		{errors.New("x"), false},
		{broker.Errorf(broker.Unavailable, "secrets_unavailable", "x"), true},
		{broker.Errorf(broker.Unavailable, "secret_forbidden", "x"), true},
		{broker.Errorf(broker.Unavailable, "secrets_login_failed", "x"), true},
		{fmt.Errorf("around: %w", broker.Errorf(broker.Unavailable, "secret_unreadable", "disk")), true},
		{broker.Errorf(broker.Refused, "secret_unreadable", "damaged"), false},
		{broker.Errorf(broker.NotFound, "secret_not_found", "x"), false},
		{broker.Errorf(broker.Unavailable, "store_unavailable", "x"), false},
	} {
		if got := secrets.Unreachable(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}
