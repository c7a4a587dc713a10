// Command daemon stands in for the agent and the broker in tests of their packages and units. It
// notifies systemd, keeps the watchdog alive, and has a child that does not end by itself.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

var version = "none"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "version" {
		fmt.Println(version)
		return
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	if err := exec.Command("/bin/sleep", "infinity").Start(); err != nil {
		panic(err)
	}
	notify("READY=1")
	for alive := time.NewTicker(5 * time.Second); ; {
		select {
		case <-alive.C:
			notify("WATCHDOG=1")
		case <-stop:
			return
		}
	}
}

func notify(state string) {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, state)
}
