package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
)

func (d *demo) proof(ctx context.Context) error {
	trust, err := d.TrustFile(ctx)
	if err != nil {
		return err
	}
	file := d.Lab.Path("staged.json")
	if err := d.Hostler(ctx, 3, "operation", "statement", d.staged, "--out", file); err != nil {
		return err
	}
	if err := d.Lab.StopBroker(); err != nil {
		return err
	}
	d.Say("The broker is stopped.")
	args := []string{"operation", "verify", file, "--trust", trust}
	d.Typed(play.Typed(args))
	said, err := d.Lab.HostlerOffline(ctx, args...)
	d.Printed(said, 30)
	if err != nil {
		return err
	}
	if !strings.Contains(said, "signed by the node") || !strings.Contains(said, d.source.Digest()) {
		return fmt.Errorf("the statement does not name the node's signature and %s", d.source.Digest())
	}
	d.Saw("the statement of the operation was verified with a file of keys alone, and names the digest of the model")
	return d.changed(ctx, file, trust)
}

// changed alters one bit of the statement, which must then not be believed.
func (d *demo) changed(ctx context.Context, file, trust string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	altered := bytes.Clone(raw)
	altered[len(altered)/2] ^= 1
	to := file + ".changed"
	if err := os.WriteFile(to, altered, 0o600); err != nil {
		return err
	}
	args := []string{"operation", "verify", to, "--trust", trust}
	d.Say("One bit in the middle of the file is changed:")
	d.Typed(play.Typed(args))
	said, err := d.Lab.HostlerOffline(ctx, args...)
	exit, is := errors.AsType[*lab.ExitError](err)
	if !is || exit.Code != 1 || said != "" {
		return fmt.Errorf("a changed statement was believed: %w: %s", err, said)
	}
	d.Printed(exit.Stderr, 4)
	d.Saw("one bit of it changed, and nothing in it is believed")
	return nil
}
