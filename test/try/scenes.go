package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/try/simnode"
)

const (
	dc   = "dc1"
	sku  = "h100.2gpu"
	name = "gpu-01"
	// canary is in everything that the tenant leaves.
	canary = "the weights of the last tenant; "
)

type try struct {
	*play.Play
	region *lab.Region
	node   *simnode.Node
	host   *lab.Host
	box    maassim.Hardware
	// certificate and trust are the files of the certificate and of the keys to verify it with.
	certificate, trust string
}

// close stops everything and removes the directory.
func (t *try) close() error {
	if t.host != nil {
		t.host.Close()
	}
	var err error
	if t.region != nil {
		err = t.region.Close()
	}
	return errors.Join(err, t.Lab.Close())
}

func (t *try) site(ctx context.Context) error {
	t.Typed("hostler-broker serve --data-dir " + t.Lab.DataDir())
	if err := t.Lab.StartBroker(ctx); err != nil {
		return err
	}
	t.Say("The libraries that stand for NVIDIA's are built with gcc, the first time only.")
	if err := t.rack(); err != nil {
		return err
	}
	deb, err := simnode.Package(t.program(), t.Lab.Path(""))
	profiles, key, password := t.Lab.Path("profiles.yaml"), t.Lab.Path("maas.key"), t.Lab.Path("bmc.pw")
	err = errors.Join(err, os.WriteFile(profiles, simnode.Profiles, 0o600), os.WriteFile(key, []byte(t.region.APIKey()+"\n"), 0o600),
		os.WriteFile(password, []byte(t.box.BMC.Password+"\n"), 0o600))
	if err != nil {
		return err
	}
	t.Say("MAAS knows of no machine yet. The site accepts that files are deleted on the disk that a system runs from")
	t.Say("(accept_system_disk), which stands on each certificate as a downgrade. By default such a machine is reimaged.")
	for _, args := range [][]string{
		{"agent-release", "publish", deb},
		{"resolver", "push", profiles, "--nodes", "all", "--version", "simulated"},
		{
			"site", "create", dc, "--region-code", "eu-1", "--api-base-url", t.region.At("127.0.0.1") + "/MAAS",
			"--pxe-iface", "ens19", "--node-pxe-iface", "eno8303",
			"--issuer-organisation", "make try: a simulation, in which no machine was cleaned",
		},
		{"site", "credentials", dc, "--maas-token-file", key, "--power-user", t.box.BMC.User, "--power-password-file", password},
		{"site", "profile", "update", dc, "default", "--set", "require_hw_sync=false", "--set", "accept_system_disk=true"},
		{
			"sku", "create", sku, "--gpu-vendor", "nvidia", "--gpu-model", "H100",
			"--gpu-count", fmt.Sprint(simnode.GPUs), "--gpu-memory", simnode.Memory,
		},
	} {
		t.Typed(play.Typed(args))
		if _, err := t.Lab.Hostler(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// rack starts the region, with the node in its rack. The region does at once what MAAS takes its
// time for.
func (t *try) rack() (err error) {
	timing := maassim.Timing{NodeTimeout: time.Hour, ReleaseTimeout: time.Hour}
	sim := &maassim.Region{Version: "3.6", Seed: uint64(time.Now().UnixNano()), Timing: timing}
	if t.region, err = lab.ServeRegion(sim); err != nil {
		return err
	}
	t.box = maassim.Box(1)
	t.box.Disks = t.box.Disks[len(t.box.Disks)-1:] // the disk that the node boots from
	options := simnode.Options{Program: t.program(), Folder: t.Lab.Path("node"), Box: t.box, Broker: simnode.BrokerOf(t.Lab)}
	if t.node, err = simnode.New(options); err != nil {
		return err
	}
	t.host = lab.NewHost(func() string { return t.region.At("127.0.0.1") }, t.node.Agent)
	t.box.Guest = t.host
	sim.PlugIn(t.box)
	return nil
}

func (t *try) program() string { return filepath.Join(t.Bin, "hostler-agent") }

// watched types a long command and draws its progress. Of the answer it shows the stages alone.
func (t *try) watched(ctx context.Context, args ...string) error {
	t.Typed(play.Typed(args))
	w, done := t.Drawing(60)
	text, err := t.Lab.HostlerLive(ctx, "", w, args...)
	done()
	if _, stages, found := strings.Cut(text, "\nStages\n"); found {
		stages, _, _ = strings.Cut(stages, "\n\n")
		t.Printed(stages, 20)
	}
	return err
}

func (t *try) onboard(ctx context.Context) error {
	machine := []string{"--site", dc, "--hostname", name, "--ipmi-ip", t.box.BMC.Address, "--sku", sku}
	return t.watched(ctx, append(append([]string{"onboarding", "start"}, machine...), "--wait")...)
}

func (t *try) leave(context.Context) error {
	if err := t.node.Leave(canary, "tmp/model.bin", "var/tmp/cache", "dev/shm/batch"); err != nil {
		return err
	}
	inFiles, inMemory, err := t.node.Left(canary)
	if err == nil && (inFiles == 0 || inMemory == 0) {
		err = fmt.Errorf("%d copies are in files and %d in the memory of GPUs", inFiles, inMemory)
	}
	t.Say("A tenant, who is simulated too, leaves data behind: %d copies in files, %d in the memory of the GPUs.", inFiles, inMemory)
	return err
}

func (t *try) turnover(ctx context.Context) error {
	err := t.watched(ctx, "decommission", "start", name, "--mode", "soft_reset", "--reason", "the tenant has left", "--yes", "--wait")
	if err != nil {
		return err
	}
	inFiles, inMemory, err := t.node.Left(canary)
	if err == nil && inFiles+inMemory > 0 {
		err = fmt.Errorf("of the tenant's data %d copies are left in files and %d in the memory of GPUs", inFiles, inMemory)
	}
	if err != nil {
		return err
	}
	t.Say("This program has searched the node's files and the GPUs' memory itself: nothing of the tenant's is left.")
	return nil
}

// proof verifies the certificate offline, and shows the verdict and the devices.
func (t *try) proof(ctx context.Context) error {
	run, err := t.LastTurnover(ctx, name)
	if err != nil {
		return err
	}
	if t.trust, err = t.TrustFile(ctx); err != nil {
		return err
	}
	t.certificate = t.Lab.Path("certificate.json")
	args := []string{"certificate", "get", run.Certificate, "--out", t.certificate}
	t.Typed(play.Typed(args))
	if _, err := t.Lab.Hostler(ctx, args...); err != nil {
		return err
	}
	args = []string{"certificate", "verify", t.certificate, "--trust", t.trust}
	t.Typed(play.Typed(args))
	text, err := t.Lab.HostlerOffline(ctx, args...)
	t.Printed(text, 27)
	return err
}

// invite says how to look around.
func (t *try) invite() error {
	hostler, err := filepath.Abs(filepath.Join(t.Bin, "hostler"))
	if err != nil {
		return err
	}
	t.Scene("Everything is still up. Look around from another terminal")
	t.Say("export HOSTLER_CONFIG=%s", filepath.Join(t.Lab.DataDir(), "client.yaml"))
	for _, line := range []string{
		"node list",
		"node show " + name,
		"node timeline " + name,
		"certificate verify " + t.certificate + " --trust " + t.trust + "   # the whole of it; --html FILE makes a page",
		"decommission start " + name + " --mode soft_reset --reason again --yes --wait",
		"audit verify",
	} {
		t.Say("%s %s", hostler, line)
	}
	t.Say("")
	t.Say("Certificate and trust file need no broker: copy them to keep them.")
	t.Say("Ctrl-C stops the broker, the region and the node, and removes %s.", t.Lab.Path(""))
	return nil
}

// diagnosis describes a failed scene for the reader.
func (t *try) diagnosis() string {
	text := "broker:\n" + play.Tail(t.Lab.BrokerLog(), 15)
	if t.host != nil {
		log, err := os.ReadFile(t.node.LogFile())
		text += fmt.Sprintf("\nagent:\n%s\n%v", play.Tail(string(log), 15), errors.Join(err, t.host.Err()))
	}
	return text
}
