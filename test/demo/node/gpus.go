package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hostler/hostler/test/demo/play"
)

// The machine's GPUs: only the vendor's libraries are replaced, and everything above them is the
// code that runs in the field.
const (
	gpus       = 8
	lyingGPU   = 5
	vramCanary = "secret-in-vram"
)

func (d *demo) vram(ctx context.Context) error {
	if err := d.Hostler(ctx, 24, "node", "facts", node); err != nil {
		return err
	}
	if err := d.Hostler(ctx, 14, "resolver", "explain", node, "gpu.scrub.overwrite"); err != nil {
		return err
	}
	d.Saw("%d GPUs among the node's facts, and the rule that says how their memory is overwritten", gpus)
	if err := d.LeaveInVRAM(ctx, tenant, vramCanary); err != nil {
		return err
	}
	d.Say("A program of %s's left its weights in the memory of all %d GPUs: this driver does not clear what is freed.", tenant, gpus)
	d.Say("GPU %d keeps some of it, whatever is written.", lyingGPU)
	_, err := d.InGuest(ctx, "sh", "-c", fmt.Sprintf("echo 'fault.%d keeps_chunk 4194304' >> %s/config", lyingGPU, play.GPUState))
	return err
}

// mendGPU removes the fault. The content of the GPU's memory stays.
func (d *demo) mendGPU(ctx context.Context) error {
	_, err := d.InGuest(ctx, "sed", "-i", "/^fault/d", play.GPUState+"/config")
	return err
}

// vramOf checks that the tenant's secret is in the memory of exactly the given GPUs.
func (d *demo) vramOf(ctx context.Context, numbers ...int) error {
	left, err := d.InVRAM(ctx, vramCanary)
	if err != nil || len(left) != len(numbers) {
		return fmt.Errorf("the canary is in the memory of %v: %w", left, err)
	}
	for i, n := range numbers {
		if !strings.Contains(left[i], fmt.Sprintf("gpu%d.vram", n)) {
			return fmt.Errorf("the canary is in the memory of %v", left)
		}
	}
	return nil
}

// scrubbed shows and checks the scrub of the turnover.
func (d *demo) scrubbed(ctx context.Context) error {
	t, err := d.LastTask(ctx, node, "node.gpu_scrub")
	if err != nil {
		return err
	}
	d.Typed("hostler task show " + t.ID)
	text, err := d.Lab.Hostler(ctx, "task", "show", t.ID)
	if err != nil {
		return err
	}
	if _, table, found := strings.Cut(text, "\nGPU scrub\n"); found {
		d.Printed(table, 20)
	}
	var result struct {
		Verdict string `json:"verdict"`
		GPUs    []struct {
			Verdict, Code string
			ResidueWords  uint64  `json:"residue_words"`
			Coverage      float64 `json:"coverage_percent"`
			Filled        *uint64 `json:"fill_rate"`
			Verified      *uint64 `json:"verify_rate"`
			Probed        *uint64 `json:"probed_non_zero_words"`
		} `json:"gpus"`
	}
	if err := json.Unmarshal(t.Result, &result); err != nil {
		return err
	}
	clean, dirty, held, residue := 0, 0, 0, uint64(0)
	for _, g := range result.GPUs {
		residue += g.ResidueWords
		if g.ResidueWords > 0 {
			held++
		}
		switch {
		case g.Verdict == "clean" && g.Probed != nil && *g.Probed == 0 && g.Coverage > 90 && g.Filled != nil && g.Verified != nil:
			clean++
		case g.Verdict == "not_clean" && g.Code == "gpu_residue":
			dirty++
		}
	}
	if len(result.GPUs) != gpus || clean != gpus-1 || dirty != 1 || result.Verdict != "not_clean" || held != gpus {
		return fmt.Errorf("the scrub says %+v", result)
	}
	if err := d.vramOf(ctx, lyingGPU); err != nil {
		return err
	}
	d.Saw("%d words of the last tenant's found in the memory of %d GPUs; %d overwritten, verified and looked at again: clean", residue,
		held, clean)
	d.Saw("one GPU that keeps old data is not_clean by itself, and stops the turnover: a GPU's word is not taken")
	return nil
}
