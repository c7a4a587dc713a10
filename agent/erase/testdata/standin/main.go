// Command standin is nvme, hdparm or blkdiscard, depending on the name of the link to it.
package main

import (
	"os"
	"path/filepath"

	"github.com/hostler/hostler/agent/erase/erasetest"
)

func main() { os.Exit(erasetest.Run(filepath.Base(os.Args[0]), os.Args[1:])) }
