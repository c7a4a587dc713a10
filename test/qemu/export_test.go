//go:build e2e

package qemu

import "context"

// Tell runs a command of QEMU's monitor. Any output of the command is an error.
func (g *Guest) Tell(ctx context.Context, command string) error { return g.tell(ctx, command) }
