package main

import (
	"testing"

	"github.com/hostler/hostler/test/manual"
)

func TestThePagesNameOnlyCommandsAndFlagsThatThereAre(t *testing.T) {
	manual.Check(t, "../../..", tree(), 150)
}

func TestThePageOfCommandsIsWhatTheProgramSays(t *testing.T) {
	manual.HoldReference(t, "../../../docs/reference/cli.md", tree(), *update, "go test ./broker/cmd/hostler -update")
}
