package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/qemu"
)

const (
	site = "dc1"
	sku  = "h100.80g.8gpu"
)

// quick is a region in which a machine is commissioned and installed in seconds.
// What the installed system does takes its own time.
var quick = maassim.Usual.Faster(200)

// region starts a simulated region that has our machine in its rack, and nothing else.
func (d *demo) serveRegion() error {
	sim := &maassim.Region{Version: "3.6", Seed: uint64(time.Now().UnixNano()), Timing: quick}
	sim.Timing.NodeTimeout = 30 * time.Minute // its patience is MAAS's own
	var err error
	if d.region, err = lab.ServeRegion(sim); err != nil {
		return err
	}
	rootfs, err := d.gpuRootfs()
	if err != nil {
		return err
	}
	d.metal = lab.NewMetal(d.image, qemu.Config{Name: node, Rootfs: rootfs}, func() string { return d.region.At(qemu.HostAddress) })
	d.box = maassim.Box(1)
	d.box.Guest = d.metal
	sim.PlugIn(d.box)
	return nil
}

func (d *demo) site(ctx context.Context) error {
	if err := d.serveRegion(); err != nil {
		return err
	}
	d.Say("A simulated MAAS 3.6 at %s has one machine in its rack, switched off, that nobody knows. Its BMC is at %s.", d.region.At("127.0.0.1"), d.box.BMC.Address)
	d.Say("What is installed on it boots as a QEMU guest, and asks the region for its data, as a machine does.")
	key, password := d.lab.Path("maas.key"), d.lab.Path("bmc.pw")
	if err := errors.Join(os.WriteFile(key, []byte(d.region.APIKey()+"\n"), 0o600), os.WriteFile(password, []byte(d.box.BMC.Password+"\n"), 0o600)); err != nil {
		return err
	}
	if err := d.hostler(ctx, 4, "site", "create", site, "--region-code", "eu-1", "--api-base-url", d.region.At("127.0.0.1")+"/MAAS", "--pxe-iface", "ens19", "--node-pxe-iface", "eno8303"); err != nil {
		return err
	}
	if err := d.hostler(ctx, 3, "site", "credentials", site, "--maas-token-file", key, "--power-user", d.box.BMC.User, "--power-password-file", password); err != nil {
		return err
	}
	if err := d.hostler(ctx, 3, "site", "profile", "update", site, "default", "--set", "hardware_sync_interval=3m"); err != nil {
		return err
	}
	if err := d.hostler(ctx, 20, "site", "probe", site); err != nil {
		return err
	}
	d.Saw("a site whose MAAS took the token before it was kept, and which lacks nothing")
	return d.hostler(ctx, 3, "sku", "create", sku, "--gpu-vendor", "nvidia", "--gpu-model", "H100", "--gpu-count", fmt.Sprint(gpus), "--gpu-memory", gpuMemory+"iB")
}

func (d *demo) machine() []string {
	return []string{"--site", site, "--hostname", node, "--ipmi-ip", d.box.BMC.Address, "--sku", sku}
}

func (d *demo) plan(ctx context.Context) error {
	return d.hostler(ctx, 30, append([]string{"onboarding", "plan"}, d.machine()...)...)
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
	d.Typed("hostler " + strings.Join(args, " "))
	w, done := d.Drawing(60)
	text, err := d.lab.HostlerLive(ctx, w, args...)
	done()
	d.Printed(text, 48)
	if err := errors.Join(<-trouble, err); err != nil {
		return err
	}
	if err := d.hostler(ctx, 6, "node", "list"); err != nil {
		return err
	}
	if n := d.region.Happened(d.box.Serial, "deploy"); n != 1 {
		return fmt.Errorf("MAAS deployed the machine %d times", n)
	}
	if d.guest() == nil {
		return errors.New("no guest was ever installed")
	}
	for _, m := range d.region.Machines() {
		if m.Hostname == node {
			d.token = lab.EnrollToken(m.UserData)
		}
	}
	if d.token == "" {
		return errors.New("what the machine was deployed with holds no enrolment token")
	}
	d.Saw("a machine went from its BMC's address to an active node in %s, with MAAS's answers lost and the broker killed on the way:", d.Elapsed())
	d.Saw("one deployment, and no operator")
	if err := d.hostler(ctx, 8, "task", "enqueue", node, "node.heartbeat_check", "--wait"); err != nil {
		return err
	}
	d.Saw("a signed task ran on it and its evidence was accepted")
	return nil
}

// onboarding is what the scenes read of one in JSON.
type onboarding struct {
	Stage   string `json:"current_stage"`
	Attempt int    `json:"current_attempt"`
	Class   string `json:"failure_class"`
}

// trouble is what happens while the machine is being deployed: MAAS begins to deploy
// it and says 503, and the broker is killed when it has to find out what came of that.
func (d *demo) trouble(ctx context.Context) error {
	d.region.Inject(maassim.Fault{Kind: maassim.UnavailableAfter, Op: "deploy"})
	err := d.lab.Wait(ctx, "the deployment", func() error {
		var list struct {
			Items []onboarding `json:"items"`
		}
		if err := d.lab.JSON(ctx, &list, "onboarding", "list"); err != nil {
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
	if err := d.lab.KillBroker(); err != nil {
		return err
	}
	d.Meanwhile("kill -9 of the broker")
	if err := d.lab.StartBroker(ctx); err != nil {
		return err
	}
	d.Meanwhile("the broker runs again")
	return nil
}
