// Command maassim runs a simulated MAAS region on the loopback interface, for use with an API
// browser, the maas CLI, or a broker.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hostler/hostler/test/maassim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "maassim:", err)
		os.Exit(2)
	}
}

// run serves a region until the context ends. Once the region answers, run prints to out what a
// client needs.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("maassim", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		fmt.Fprintln(out, "Usage: maassim [options]\n\nRuns a simulated MAAS region until it is interrupted.\n\nOptions:")
		flags.PrintDefaults()
	}
	listen := flags.String("listen", "127.0.0.1:5240", "loopback address to serve at; port 0 is any free one")
	version := flags.String("version", "3.6", "MAAS `version` to play: 3.4, 3.5 or 3.6")
	machines := flags.Int("machines", 4, "machines of bare metal in the rack, which MAAS does not know yet")
	seed := flags.Uint64("seed", 1, "seed of all ids, keys and names")
	speed := flags.Float64("speed", 20, "how many times faster than usual everything goes")
	switch err := flags.Parse(args); {
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("cannot take %q: only options are known (see --help)", flags.Arg(0))
	case *speed <= 0:
		return fmt.Errorf("cannot go at speed %v: it must be above 0", *speed)
	case *version != "3.4" && *version != "3.5" && *version != "3.6":
		return fmt.Errorf("cannot play version %q: it is 3.4, 3.5 or 3.6", *version)
	case *machines < 0 || *machines > 1<<16:
		return fmt.Errorf("cannot put %d machines into the rack: it holds 0 to %d", *machines, 1<<16)
	}
	listener, err := loopback(*listen)
	if err != nil {
		return err
	}
	region := &maassim.Region{Version: *version, Seed: *seed, Timing: maassim.Usual.Faster(*speed)}
	fmt.Fprintf(out, "URL      http://%s/MAAS\nAPI key  %s\ndoor     http://%s%s (the simulator's own: see test/maassim/README.md)\n",
		listener.Addr(), region.APIKey(), listener.Addr(), maassim.DoorPath)
	for n := range *machines {
		box := maassim.Box(n + 1)
		region.PlugIn(box)
		fmt.Fprintf(out, "machine  %s  BMC %s  user %s  password %s\n", box.Serial, box.BMC.Address, box.BMC.User, box.BMC.Password)
	}
	mux := http.NewServeMux()
	mux.Handle("/", region)
	mux.Handle(maassim.DoorPath, region.Door())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close() // no call needs a graceful shutdown
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// loopback listens at an address that no other host can reach.
func loopback(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("cannot listen at %q: it is no loopback address and port such as 127.0.0.1:5240", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen at %s: %v (try --listen 127.0.0.1:0)", address, err)
	}
	return listener, nil
}
