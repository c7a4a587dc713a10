package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/hostler/hostler/test/demo/play"
)

var softReset = []string{"decommission", "start", node, "--mode", "soft_reset", "--reason", "allocation a-1 ended"}

func (d *demo) whose(ctx context.Context) error {
	d.Say("%s's time is over. What would be done, and to whom:", tenant)
	if err := d.Hostler(ctx, 40, "decommission", "plan", node, "--mode", "soft_reset"); err != nil {
		return err
	}
	if err := d.Refused(ctx, append(softReset, "--yes"), "allocation_live", allocation, tenant); err != nil {
		return err
	}
	n, err := d.Node(ctx, node)
	if err != nil || n.Status != "active" || n.TurnoverOwed {
		return fmt.Errorf("a turnover that was refused has changed the node: %+v: %w", n, err)
	}
	d.Saw("a turnover under a tenant's feet was refused, by the tenant's name")
	return nil
}

func (d *demo) turnover(ctx context.Context) error {
	if err := play.Stopped(d.Watched(ctx, 40, append(softReset, "--force-release", "--yes", "--wait")...)); err != nil {
		return err
	}
	var err error
	if d.run, err = d.LastTurnover(ctx, node); err != nil {
		return err
	}
	if d.run.Stage != "scrub_gpu" || d.run.Class != "gpu_scrub_incomplete" || d.run.Next == "" || d.run.Certificate != "" {
		return fmt.Errorf("the turnover is %+v", d.run)
	}
	return d.scrubbed(ctx)
}

func (d *demo) keptFromUse(ctx context.Context) error {
	d.Typed("hostler node show " + node)
	text, err := d.Lab.Hostler(ctx, "node", "show", node)
	if err != nil {
		return err
	}
	const why = "Why it may not be handed out"
	d.Printed(text, 8)
	if _, section, found := strings.Cut(text, why); found {
		section, _, _ = strings.Cut(section, "\n\n")
		d.Printed(why+section, 8)
	}
	n, err := d.Node(ctx, node)
	if err != nil || n.Status != "quarantined" || !n.TurnoverOwed || n.Handout.OK || len(n.Handout.Reasons) < 2 {
		return fmt.Errorf("the node is %+v: %w", n, err)
	}
	d.Say("The next tenant:")
	if err := d.TenantRefused(ctx, node, "a-2", "bob"); err != nil {
		return err
	}
	d.Say("An operator who is in a hurry:")
	if err := d.Refused(ctx, []string{"node", "activate", node, "--reason", "it is needed"}, "turnover"); err != nil {
		return err
	}
	d.Saw("a node of which one GPU is not clean is quarantined, and neither a tenant nor an operator gets it")
	return nil
}

func (d *demo) mended(ctx context.Context) error {
	d.Say("Somebody mends GPU %d.", lyingGPU)
	if err := d.mendGPU(ctx); err != nil {
		return err
	}
	if err := d.Watched(ctx, 40, "decommission", "resume", d.run.ID, "--reason", "GPU mended", "--wait"); err != nil {
		return err
	}
	var err error
	if d.run, err = d.LastTurnover(ctx, node); err != nil {
		return err
	}
	n, err := d.Node(ctx, node)
	if err != nil || n.Status != "active" || n.TurnoverOwed || !n.Handout.OK || d.run.Status != "completed" || !d.run.MeetsPolicy {
		return fmt.Errorf("the turnover is %+v, the node %+v: %w", d.run, n, err)
	}
	if err := d.nothingLeft(ctx); err != nil {
		return err
	}
	if err := d.vramOf(ctx); err != nil {
		return err
	}
	d.Saw("mended and resumed, the turnover was completed; a search of the machine and of its GPUs' memory finds nothing of %s's", tenant)
	return nil
}

func (d *demo) proof(ctx context.Context) error {
	c, file, err := d.Verify(ctx, d.run.Certificate)
	if err != nil {
		return err
	}
	clean := 0
	for _, g := range c.Devices {
		if g.Kind == "gpu" && g.Verdict == "clean" && g.Verification == "verified" {
			clean++
		}
	}
	if clean != gpus || !c.Verdict.MeetsPolicy || c.Environment != "tenant_os" {
		return fmt.Errorf("the certificate says %+v", c)
	}
	d.Saw("a certificate that was verified with a file of keys alone: %d GPUs overwritten and verified, and what nobody looked at", clean)
	if err := d.Flip(ctx, file); err != nil {
		return err
	}
	d.Saw("one bit of it changed, and nothing in it is believed")
	return nil
}
