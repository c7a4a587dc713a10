package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/canonical/gomaasclient/client"
	"github.com/canonical/gomaasclient/entity"
)

func TestHelpNamesEachOption(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, &out); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, option := range []string{"-listen", "-version", "-machines", "-seed", "-speed"} {
		if !strings.Contains(out.String(), "  "+option+" ") {
			t.Errorf("help lacks %s:\n%s", option, out.String())
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--version", "2.9"}, {"--speed", "0"}, {"--machines", "-1"}, {"--listen", "0.0.0.0:0"}, {"--listen", "5240"}, {"now"}, {"--fast"},
	} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}

// The printed lines are enough to call the region, until the command is stopped.
func TestWhatIsPrintedIsEnoughToTalkToIt(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"--listen", "127.0.0.1:0", "--version", "3.4", "--machines", "1"}, write)
	}()
	told := map[string][]string{}
	for lines := bufio.NewScanner(read); len(told) < 4 && lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), "  ")
		told[word] = strings.Fields(rest)
	}
	c, err := client.GetClient(told["URL"][0], told["API key"][0], "2.0")
	if err != nil {
		t.Fatal(err)
	}
	bmc := told["machine"]
	m, err := c.Machines.Create(&entity.MachineCreateParams{PowerType: "ipmi"}, map[string]any{
		"power_parameters_power_address": bmc[2], "power_parameters_power_user": bmc[4], "power_parameters_power_pass": bmc[6],
	})
	if err != nil || m.StatusName != "Commissioning" {
		t.Errorf("%v, %v", m.StatusName, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
