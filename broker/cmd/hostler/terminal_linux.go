package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropTyped discards input that was typed and not read.
func dropTyped(f *os.File) { _ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH) }
