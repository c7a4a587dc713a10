// Command standin is nvme, hdparm and blkdiscard, by the name that it is linked to.
package main

import (
	"os"
	"path/filepath"

	"github.com/hostler/hostler/agent/erase/erasetest"
)

func main() { os.Exit(erasetest.Run(filepath.Base(os.Args[0]), os.Args[1:])) }
