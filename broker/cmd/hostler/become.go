package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/hostler/hostler/broker"
)

// reaches reports whether somebody listens at an address of TCP.
func reaches(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// become replaces this process by a program of the search path. The program gets no token of the broker.
// Code: program_missing.
func become(program string, args ...string) error {
	path, err := exec.LookPath(program)
	if err == nil {
		err = syscall.Exec(path, append([]string{program}, args...), withoutToken(os.Environ()))
	}
	return broker.Errorf(broker.Internal, "program_missing", "cannot run %s: %v (install it, or log in by hand: hostler allocation show ID)",
		program, err)
}

// withoutToken is an environment without the token of the broker.
func withoutToken(env []string) []string {
	return slices.DeleteFunc(env, func(s string) bool { return strings.HasPrefix(s, "HOSTLER_TOKEN=") })
}
