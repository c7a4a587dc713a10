//go:build e2e

package qemu

import "context"

// Tell runs a command of QEMU's monitor that says nothing when it is content.
func (g *Guest) Tell(ctx context.Context, command string) error { return g.tell(ctx, command) }
