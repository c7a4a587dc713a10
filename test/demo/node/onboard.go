package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/qemu"
)

const (
	site = "dc1"
	sku  = "h100.80g.8gpu"
)

func (d *demo) site(ctx context.Context) error {
	rootfs, err := d.GPUs(gpus)
	if err != nil {
		return err
	}
	if d.Rack, err = lab.NewRack(d.image, qemu.Config{Name: node, Rootfs: rootfs}, maassim.Box(1)); err != nil {
		return err
	}
	d.Say("A simulated MAAS 3.6 at %s has one machine in its rack, switched off, that nobody knows. Its BMC is at %s.",
		d.Rack.At("127.0.0.1"), d.Rack.Box.BMC.Address)
	d.Say("What is installed on it boots as a QEMU guest, and asks the region for its data, as a machine does.")
	d.Say("It boots from its only disk, which nobody can erase under the running system: this site accepts that files are deleted there")
	d.Say("(accept_system_disk), which stands on each certificate as a downgrade. By default such a machine is reimaged: docs/how-to/turnover.md.")
	if err := d.Site(ctx, site, "accept_system_disk=true", "stage_retries.scrub_gpu=0"); err != nil {
		return err
	}
	d.Saw("a site whose MAAS took the token before it was kept, and which lacks nothing")
	return d.Hostler(ctx, 3, "sku", "create", sku, "--gpu-vendor", "nvidia", "--gpu-model", "H100", "--gpu-count", fmt.Sprint(gpus),
		"--gpu-memory", play.GPUMemory+"iB")
}

func (d *demo) machine() []string {
	return []string{"--site", site, "--hostname", node, "--ipmi-ip", d.Rack.Box.BMC.Address, "--sku", sku}
}

func (d *demo) plan(ctx context.Context) error {
	return d.Hostler(ctx, 30, append([]string{"onboarding", "plan"}, d.machine()...)...)
}

func (d *demo) onboard(ctx context.Context) error {
	trouble := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := d.trouble(ctx)
		if err != nil {
			cancel() // there is nothing to wait for any more
		}
		trouble <- err
	}()
	args := append(append([]string{"onboarding", "start"}, d.machine()...), "--wait")
	err := d.Watched(ctx, 48, args...)
	if err := errors.Join(<-trouble, err); err != nil {
		return err
	}
	if err := d.Hostler(ctx, 6, "node", "list"); err != nil {
		return err
	}
	if n := d.Deployed(); n != 1 {
		return fmt.Errorf("MAAS deployed the machine %d times", n)
	}
	if d.token, err = d.Token(node); err != nil {
		return err
	}
	d.Saw("a machine went from its BMC's address to an active node in %s, with MAAS's answers lost and the broker killed on the way:",
		d.Elapsed())
	d.Saw("one deployment, and no operator")
	if err := d.Hostler(ctx, 8, "task", "enqueue", node, "node.heartbeat_check", "--wait"); err != nil {
		return err
	}
	d.Saw("a signed task ran on it and its evidence was accepted")
	return nil
}

// onboarding holds the fields of an onboarding that the scenes read.
type onboarding struct {
	Stage   string `json:"current_stage"`
	Attempt int    `json:"current_attempt"`
	Class   string `json:"failure_class"`
}

// trouble strikes during the deployment: MAAS begins the deployment and answers 503, and the broker
// is killed while it has to find out the result.
func (d *demo) trouble(ctx context.Context) error {
	d.Rack.Inject(maassim.Fault{Kind: maassim.UnavailableAfter, Op: "deploy"})
	err := d.Lab.Wait(ctx, "the deployment", func() error {
		var list struct {
			Items []onboarding `json:"items"`
		}
		if err := d.Lab.JSON(ctx, &list, "onboarding", "list"); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Class == "" && list.Items[0].Attempt < 2 && list.Items[0].Stage != "wait_for_deployed" {
			return errors.New("MAAS has not been asked to deploy yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.Meanwhile("MAAS deploys the machine, and answers 503 all the same: nobody knows whether it does")
	if err := d.Lab.KillBroker(); err != nil {
		return err
	}
	d.Meanwhile("kill -9 of the broker")
	if err := d.Lab.StartBroker(ctx); err != nil {
		return err
	}
	d.Meanwhile("the broker runs again")
	return nil
}
