package play

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/hostler/hostler/test/fakegpu"
)

// GPUMemory is the memory of each GPU of a demo's machine.
const GPUMemory = "16M"

// GPUState is the directory of the guest that holds the GPUs' settings and memory.
const GPUState = "/var/lib/fakegpu"

// GPUs makes an archive that is part of a machine from its first boot: libraries with the vendor's
// ABI over GPUs whose memory keeps its content. Everything above the libraries is the code that
// runs in the field.
func (p *Play) GPUs(devices int) (rootfs string, err error) {
	name := p.Lab.Path("gpus.tar")
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	if err := fakegpu.Rootfs(f, "nvidia", fmt.Sprintf("devices %d", devices), "memory "+GPUMemory, "reserved 1M",
		"scrub_on_free off"); err != nil {
		return "", err
	}
	return name, f.Close()
}

// LeaveInVRAM runs a program of the user's that writes text to the memory of all GPUs, and ends.
func (p *Play) LeaveInVRAM(ctx context.Context, user, text string) error {
	// A tenant's program may open GPUs: their files are open to everybody, as /dev/nvidia0 is.
	if _, err := p.InGuest(ctx, "chmod", "-R", "a+rwX", GPUState); err != nil {
		return err
	}
	_, err := p.InGuest(ctx, "runuser", "-u", user, "--", "fakegpu-tenant", "8388608", text)
	return err
}

// InVRAM searches the memory of the GPUs itself, independently of the agent, and returns the files
// of the GPUs that hold text.
func (p *Play) InVRAM(ctx context.Context, text string) ([]string, error) {
	found, err := p.Guest().Run(ctx, "grep", "-rl", text, GPUState, "--include=*.vram")
	if found.Exit > 1 || err != nil && found.Exit == 0 { // 1: grep found nothing
		return nil, err
	}
	return strings.Fields(found.Stdout), nil
}
