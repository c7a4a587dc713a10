package erase

import (
	"context"

	"github.com/hostler/hostler/agent/command"
	profiles "github.com/hostler/hostler/resolver-profiles"
	"github.com/hostler/hostler/taskcatalog"
)

// tool runs a disk tool.
func (e *Erase) tool(ctx context.Context, id string, args map[string]any) ([]byte, error) {
	return run(ctx, e.Commands, id, args)
}

func run(ctx context.Context, commands *command.Runner, id string, args map[string]any) ([]byte, error) {
	res, err := commands.Run(ctx, profiles.DiskTools()[id], args)
	if err == nil && res.Stdout.Cut() {
		err = taskcatalog.Errorf(taskcatalog.CodeDiskUnreadable, "%s printed %d bytes, more than the limit", id, res.Stdout.Total)
	}
	return res.Stdout.Kept, err
}

// missing reports whether a tool is not installed, or may not run here: its work is not done, but
// the disk has not refused it.
func missing(err error) bool {
	switch taskcatalog.CodeOf(err, "") {
	case command.CodeExecutableMissing, command.CodeExecutableInsecure, command.CodeExecutableRefused:
		return true
	}
	return false
}

// outcomeUnknown reports whether a tool ended without the disk's answer: its command may go on
// inside the drive.
func outcomeUnknown(err error) bool {
	switch taskcatalog.CodeOf(err, "") {
	case command.CodeTimedOut, command.CodeStuck, command.CodeSignaled, command.CodeLeftProcesses:
		return true
	}
	return false
}
