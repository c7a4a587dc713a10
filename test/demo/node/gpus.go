package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/hostler/hostler/test/fakegpu"
)

// The machine's GPUs: the vendor's libraries are replaced at their outer edge,
// and everything above them is what runs in the field.
const (
	gpus       = 8
	gpuMemory  = "16M"
	lyingGPU   = 5
	vramCanary = "secret-in-vram"
)

// gpuRootfs is what the machine has from its first boot: libraries of the vendor's
// ABI over eight GPUs whose memory keeps what was in it.
func (d *demo) gpuRootfs() (string, error) {
	name := d.lab.Path("gpus.tar")
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	if err := fakegpu.Rootfs(f, "nvidia", fmt.Sprintf("devices %d", gpus), "memory "+gpuMemory, "reserved 1M", "scrub_on_free off"); err != nil {
		return "", err
	}
	return name, f.Close()
}

func (d *demo) vram(ctx context.Context) error {
	if err := d.hostler(ctx, 24, "node", "facts", node); err != nil {
		return err
	}
	if err := d.hostler(ctx, 14, "resolver", "explain", node, "gpu.scrub.overwrite"); err != nil {
		return err
	}
	d.Saw("%d GPUs among the node's facts, and the rule that says how their memory is overwritten", gpus)
	// A tenant's program may open GPUs: their files are everybody's, as /dev/nvidia0 is.
	if err := d.inGuest(ctx, "chmod", "-R", "a+rwX", "/var/lib/fakegpu"); err != nil {
		return err
	}
	if err := d.inGuest(ctx, "runuser", "-u", "nobody", "--", "fakegpu-tenant", "8388608", vramCanary); err != nil {
		return err
	}
	d.Say("A program of the last tenant left its weights in the memory of all %d GPUs: this driver does not clear what is freed.", gpus)
	d.Say("GPU %d keeps some of it, whatever is written.", lyingGPU)
	return d.inGuest(ctx, "sh", "-c", fmt.Sprintf("echo 'fault.%d keeps_chunk 4194304' >> /var/lib/fakegpu/config", lyingGPU))
}

func (d *demo) scrub(ctx context.Context) error {
	args := []string{"task", "enqueue", node, "node.gpu_scrub", "--wait", "--yes"}
	d.Typed("hostler " + strings.Join(args, " "))
	text, err := d.lab.HostlerLive(ctx, d.Live(12), args...)
	d.Printed(text, 60)
	if err != nil {
		return err
	}
	var t struct {
		Result struct {
			Verdict string `json:"verdict"`
			GPUs    []struct {
				UUID, Verdict, Code string
				ResidueWords        uint64  `json:"residue_words"`
				Coverage            float64 `json:"coverage_percent"`
				Probed              *uint64 `json:"probed_non_zero_words"`
			} `json:"gpus"`
			Assurance struct{ Overwrite, Reset string } `json:"assurance"`
		} `json:"result"`
	}
	var list []task
	if err := d.lab.JSON(ctx, &list, "task", "list", "--node", node); err != nil {
		return err
	}
	for _, k := range list {
		if k.Type == "node.gpu_scrub" {
			if err := d.lab.JSON(ctx, &t, "task", "show", k.ID); err != nil {
				return err
			}
			break
		}
	}
	clean, dirty, held, residue := 0, 0, 0, uint64(0)
	for _, g := range t.Result.GPUs {
		residue += g.ResidueWords
		if g.ResidueWords > 0 {
			held++
		}
		switch {
		case g.Verdict == "clean" && g.Probed != nil && *g.Probed == 0:
			clean++
		case g.Verdict == "not_clean" && g.Code == "gpu_residue":
			dirty++
		}
	}
	if len(t.Result.GPUs) != gpus || clean != gpus-1 || dirty != 1 || t.Result.Verdict != "not_clean" || held != gpus {
		return fmt.Errorf("the scrub says %+v", t.Result)
	}
	// Not the agent's word: the memory itself is searched.
	found, err := d.guest().Run(ctx, "grep", "-lc", vramCanary, "-r", "/var/lib/fakegpu", "--include=*.vram")
	if left := strings.Fields(found.Stdout); len(left) != 1 || !strings.Contains(left[0], fmt.Sprintf("gpu%d.vram", lyingGPU)) {
		return fmt.Errorf("the canary is in the memory of %v: %w", left, err)
	}
	d.Saw("%d words of the last tenant's found in the memory of %d GPUs; %d overwritten, verified and looked at again: clean", residue, held, clean)
	d.Saw("one GPU that keeps old data is not_clean by itself: a GPU's word is not taken")
	return nil
}
