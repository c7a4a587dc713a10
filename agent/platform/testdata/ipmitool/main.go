// Command ipmitool stands in for the real program: it prints the file that a test has written for
// the query, or the real program's answer about a missing channel. In such a file the text after a
// "!" at the start of a line goes to stderr, with exit status 1.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	play := filepath.Join(strings.TrimSuffix(exe, "/usr/bin/ipmitool"), "play")
	log, err := os.OpenFile(filepath.Join(play, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(log, strings.Join(os.Args[1:], " "))
	text, err := os.ReadFile(filepath.Join(play, strings.Join(os.Args[3:], " ")))
	if err != nil {
		text = []byte("!IPMI command failed: Invalid data field in request\nUnable to Get Channel Info")
	}
	told, said, failed := strings.Cut("\n"+string(text), "\n!")
	fmt.Print(strings.TrimPrefix(told, "\n"))
	if failed {
		fmt.Fprintln(os.Stderr, said)
		os.Exit(1)
	}
}
