package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker/cmd/hostler/render"
	"github.com/hostler/hostler/taskcatalog"
)

func TestANodeDoesNotFloodTheTerminal(t *testing.T) {
	r := taskcatalog.GPUScrubResult{Verdict: "clean"}
	for i := range maxRows + 50 {
		r.GPUs = append(r.GPUs, taskcatalog.GPUScrubbed{UUID: fmt.Sprintf("GPU-%d", i), Verdict: "clean"})
	}
	raw, err := taskcatalog.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	p := render.NewPage(false, 0)
	taskResult(p, "node.gpu_scrub@1", raw)
	var out bytes.Buffer
	if _, err := p.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\nGPU-"); n != maxRows || !strings.Contains(out.String(), "and 50 lines more") {
		t.Errorf("%d of %d GPUs are shown:\n%.2000s", n, len(r.GPUs), out.String())
	}
}

// Rounded up, a coverage below the policy's minimum would look sufficient.
func TestAShareIsNeverRoundedUp(t *testing.T) {
	for share, want := range map[float64]string{97.999: "97.99%", 98: "98.00%", 98.02: "98.02%", 99.99999: "99.99%", 100: "100.00%", 0: "0.00%"} {
		if got := percent(&share); got != want {
			t.Errorf("%v is %s, want %s", share, got, want)
		}
	}
}

// A weaker method is never shown as the requested method.
func TestADowngradeOfADiskIsShown(t *testing.T) {
	raw, err := taskcatalog.Encode(taskcatalog.DiskEraseResult{Disks: []taskcatalog.ErasedDisk{{
		Name: "nvme0n1", Serial: "S6", Asked: taskcatalog.MethodNVMeSanitizeBlock, Method: taskcatalog.MethodOverwrite, Verification: "verified", Verdict: "clean",
		Attempts: []taskcatalog.EraseAttempt{{Method: taskcatalog.MethodNVMeSanitizeBlock, Code: taskcatalog.CodeEraseRefused, Message: "nvme ended with 1"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	p := render.NewPage(false, 0)
	taskResult(p, "node.disk_erase@1", raw)
	var out bytes.Buffer
	if _, err := p.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"overwrite", "clear", "less than nvme_sanitize_block_erase", "erase_refused", "nvme ended with 1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, out.String())
		}
	}
}
