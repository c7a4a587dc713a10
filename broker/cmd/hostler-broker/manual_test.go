package main

import (
	"testing"

	"github.com/hostler/hostler/test/manual"
)

func TestThePagesNameOnlyCommandsAndFlagsThatThereAre(t *testing.T) {
	manual.Check(t, "../../..", newRoot(), 20)
}

func TestThePageOfCommandsIsWhatTheProgramSays(t *testing.T) {
	manual.HoldReference(t, "../../../docs/reference/cli-broker.md", newRoot(), *update, "go test ./broker/cmd/hostler-broker -update")
}
