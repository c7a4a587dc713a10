package qemu

import (
	"context"
	"errors"
	"fmt"
)

// Twin makes another guest with the same configuration and keys, and a copy of all snapshots. The
// twin does not boot; it runs only after LoadVM. The caller must Close it.
func (g *Guest) Twin(ctx context.Context) (*Guest, error) {
	twin := &Guest{name: g.name, image: g.image, config: g.config, keys: g.keys, drives: g.drives}
	err := twin.settle()
	if err == nil {
		err = g.copyTo(ctx, twin)
	}
	if err == nil {
		err = twin.start(ctx, "-S")
	}
	if err != nil {
		twin.Close()
		return nil, fmt.Errorf("cannot make a twin of guest %s: %w", g.name, err)
	}
	return twin, nil
}

// copyTo copies the drives. The files are complete while the guest is stopped.
func (g *Guest) copyTo(ctx context.Context, twin *Guest) error {
	if err := g.tell(ctx, "stop"); err != nil {
		return err
	}
	var errs []error
	for _, name := range append([]string{seedVolume}, g.drives...) {
		errs = append(errs, run(ctx, "cp", "--sparse=always", "--reflink=auto", g.path(name), twin.path(name)))
	}
	return errors.Join(append(errs, g.tell(ctx, "cont"))...)
}
