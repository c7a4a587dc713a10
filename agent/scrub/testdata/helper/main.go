// The process that loads vendor libraries, as the agent starts it: see package gpu. The whole agent
// takes several times as long to start, and a test starts this process dozens of times.
package main

import (
	"crypto/rand"
	"os"
	"time"

	"github.com/hostler/hostler/agent/gpu"
	"github.com/hostler/hostler/agent/gpu/amd"
	"github.com/hostler/hostler/agent/gpu/nvidia"
	"github.com/hostler/hostler/agent/machine"
)

func main() {
	var seed [32]byte
	if _, err := rand.Read(seed[:]); err != nil {
		panic(err)
	}
	m, err := machine.Open("/")
	if err != nil {
		panic(err)
	}
	os.Exit(gpu.Child([]gpu.Vendor{nvidia.New(), amd.New(m)}, time.Now, seed))
}
