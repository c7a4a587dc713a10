package main

import (
	"flag"
	"testing"

	"github.com/hostler/hostler/test/manual"
)

var update = flag.Bool("update", false, "write the page of commands anew")

func TestThePagesNameOnlyCommandsAndFlagsThatThereAre(t *testing.T) {
	manual.Check(t, "../../..", newRoot(), 15)
}

func TestThePageOfCommandsIsWhatTheProgramSays(t *testing.T) {
	manual.HoldReference(t, "../../../docs/reference/cli-agent.md", newRoot(), *update, "go test ./agent/cmd/hostler-agent -update")
}
