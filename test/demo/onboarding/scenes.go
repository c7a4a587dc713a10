package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/maassim"
	"github.com/hostler/hostler/test/try/simnode"
)

const (
	dc    = "dc1"
	sku   = "h100.2gpu"
	rack  = 4 // machines in it
	blank = 3 // the number of the machine without a boot disk
	late  = rack + 1
	taken = rack + 2 // the number of hardware that another user has deployed
	db    = "db-01"  // its hostname
)

type demo struct {
	*play.Play
	region *lab.Region
	hosts  map[string]*lab.Host // by BMC address
	boss   maassim.Disk         // the boot disk that was left out
	failed onboarding
	frozen onboarding
}

// onboarding holds the fields of an onboarding that the scenes read.
type onboarding struct {
	ID       string `json:"id"`
	Hostname string `json:"hostname"`
	Status   string `json:"status"`
	Stage    string `json:"current_stage"`
	Waiting  string `json:"waiting"`
	Class    string `json:"failure_class"`
	Code     string `json:"error_code"`
	Next     string `json:"recommended_next_action"`
}

func (d *demo) close() {
	for _, h := range d.hosts {
		h.Close()
	}
	if d.region != nil {
		d.region.Close()
	}
	d.Lab.Close()
}

func hostname(n int) string { return fmt.Sprintf("c07u4%d", n) }

// refused checks that a command failed. Its output was shown already.
func refused(err error) error {
	if exit, is := errors.AsType[*lab.ExitError](err); !is || exit.Code < 1 {
		return fmt.Errorf("it was not refused: %w", err)
	}
	return nil
}

func (d *demo) site(ctx context.Context) error {
	d.Typed("hostler-broker serve --data-dir …")
	if err := d.Lab.StartBroker(ctx); err != nil {
		return err
	}
	sim := &maassim.Region{Version: "3.6", Seed: uint64(time.Now().UnixNano()), Timing: maassim.Usual.Faster(200)}
	var err error
	if d.region, err = lab.ServeRegion(sim); err != nil {
		return err
	}
	d.hosts = map[string]*lab.Host{}
	var bmc maassim.BMC
	for n := 1; n <= late; n++ {
		box := maassim.Box(n)
		box.Disks = box.Disks[len(box.Disks)-1:] // the disk that the node boots from
		node, err := simnode.New(simnode.Options{
			Program: filepath.Join(d.Bin, "hostler-agent"), Folder: d.Lab.Path(hostname(n)), Box: box, Broker: simnode.BrokerOf(d.Lab),
		})
		if err != nil {
			return err
		}
		h := lab.NewHost(func() string { return d.region.At("127.0.0.1") }, node.Agent)
		box.Guest, d.hosts[box.BMC.Address] = h, h
		box.BMC.User, box.BMC.Password = "root", "rack-c07"
		if n == blank {
			d.boss, box.Disks = box.Disks[0], nil
		}
		sim.PlugIn(box)
		bmc = box.BMC
	}
	sim.Arrange(maassim.Arranged{Hardware: maassim.Box(taken), Status: maassim.Deployed, Owner: "somebody", Hostname: db, PowerOn: true})
	d.Say("A simulated MAAS 3.6 at %s has %d new machines in its rack. It has deployed %s, which is somebody's.", d.region.At("127.0.0.1"),
		late, db)
	key, password, profiles := d.Lab.Path("maas.key"), d.Lab.Path("bmc.pw"), d.Lab.Path("profiles.yaml")
	if err := errors.Join(os.WriteFile(profiles, simnode.Profiles, 0o600), os.WriteFile(key, []byte(d.region.APIKey()+"\n"), 0o600),
		os.WriteFile(password, []byte(bmc.Password+"\n"), 0o600)); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"resolver", "push", profiles, "--nodes", "all", "--version", "simulated"},
		{
			"site", "create", dc, "--region-code", "eu-1", "--api-base-url", d.region.At("127.0.0.1") + "/MAAS", "--pxe-iface", "ens19",
			"--node-pxe-iface", "eno8303",
		},
		{"site", "credentials", dc, "--maas-token-file", key, "--power-user", bmc.User, "--power-password-file", password},
		{"site", "profile", "update", dc, "default", "--set", "hardware_sync_interval=3m"},
		{
			"sku", "create", sku, "--gpu-vendor", "nvidia", "--gpu-model", "H100",
			"--gpu-count", fmt.Sprint(simnode.GPUs), "--gpu-memory", simnode.Memory,
		},
	} {
		if err := d.Hostler(ctx, 3, args...); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) batch(ctx context.Context) error {
	csv := "hostname,ipmi_ip\n"
	for n := 1; n <= rack; n++ {
		csv += hostname(n) + "," + maassim.Box(n).BMC.Address + "\n"
	}
	file := d.Lab.Path("rack-c07.csv")
	if err := os.WriteFile(file, []byte(csv), 0o600); err != nil {
		return err
	}
	d.Typed("cat rack-c07.csv")
	d.Printed(csv, 9)
	if err := refused(d.Watched(ctx, 30, "onboarding", "batch", "--site", dc, "--sku", sku, file, "--wait")); err != nil {
		return err
	}
	good := 0
	all, err := d.all(ctx)
	for _, o := range all {
		switch {
		case o.Status == "completed":
			good++
		case o.Hostname == hostname(blank) && o.Status == "failed_manual_intervention" && o.Class == "hardware_mismatch" &&
			o.Code == "boot_disk_missing" && o.Next != "":
			d.failed = o
		}
	}
	if good != rack-1 || d.failed.ID == "" {
		return fmt.Errorf("the batch ended as %+v: %w", all, err)
	}
	d.Saw("%d machines of %d became active nodes, from one file", good, rack)
	d.Saw("a machine with no disk to boot from stopped as %s (%s) and says what is next", d.failed.Class, d.failed.Code)
	return nil
}

func (d *demo) all(ctx context.Context) (all []onboarding, err error) {
	var list struct {
		Items []onboarding `json:"items"`
	}
	err = d.Lab.JSON(ctx, &list, "onboarding", "list")
	return list.Items, err
}

func (d *demo) one(ctx context.Context, id string) (o onboarding, err error) {
	return o, d.Lab.JSON(ctx, &o, "onboarding", "show", id)
}

// door sends a request to the simulator's own door, which changes the hardware.
func (d *demo) door(ctx context.Context, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	at := d.region.At("127.0.0.1") + path
	d.Typed(fmt.Sprintf("curl -d '%s' %s", text, at))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(string(text)))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if said, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the simulator answers %d: %s", res.StatusCode, said)
	}
	return nil
}

func (d *demo) mend(ctx context.Context) error {
	d.Say("Somebody in the data centre puts the disk in that was left out:")
	if err := d.door(ctx, "/sim/hardware/"+maassim.Box(blank).BMC.Address+"/disks", d.boss); err != nil {
		return err
	}
	if err := d.Watched(ctx, 12, "onboarding", "resume", d.failed.ID, "--reason", "disk fitted", "--wait"); err != nil {
		return err
	}
	o, err := d.one(ctx, d.failed.ID)
	if err != nil || o.Status != "completed" {
		return fmt.Errorf("resumed, it is %+v: %w", o, err)
	}
	if err := d.Hostler(ctx, 8, "node", "list"); err != nil {
		return err
	}
	for n := 1; n <= rack; n++ {
		if got := d.region.Happened(maassim.Box(n).Serial, "deploy"); got != 1 {
			return fmt.Errorf("MAAS deployed %s %d times", hostname(n), got)
		}
	}
	d.Saw("mended and resumed, it was looked at again and became a node; each of the %d was deployed once", rack)
	return nil
}

func (d *demo) typo(ctx context.Context) error {
	before := len(d.region.History(maassim.Box(taken).Serial))
	err := refused(d.Watched(ctx, 0, "onboarding", "start", "--site", dc, "--sku", sku, "--hostname", db,
		"--ipmi-ip", maassim.Box(late).BMC.Address, "--wait"))
	if err != nil {
		return err
	}
	all, err := d.all(ctx)
	i := slices.IndexFunc(all, func(o onboarding) bool { return o.Hostname == db })
	if err != nil || i < 0 || all[i].Class != "state_ambiguity" {
		return fmt.Errorf("it was not refused as ambiguous: %+v: %w", all, err)
	}
	for _, m := range d.region.Machines() {
		if m.Hostname == db && (m.Status != maassim.Deployed || m.Owner != "somebody" || !m.On) {
			return fmt.Errorf("%s was touched: %+v", db, m)
		}
	}
	if n := len(d.region.History(maassim.Box(taken).Serial)); n != before {
		return fmt.Errorf("%s was touched: %d changes", db, n-before)
	}
	d.Saw("a hostname that is another machine's was refused as %s, and nothing was touched in MAAS", all[i].Class)
	return d.Hostler(ctx, 3, "onboarding", "cancel", all[i].ID, "--reason", "typo", "--yes")
}

func (d *demo) freeze(ctx context.Context) error {
	if err := d.Hostler(ctx, 4, "freeze", "--site", dc, "--reason", "the fabric is being rewired"); err != nil {
		return err
	}
	if err := d.Hostler(ctx, 3, "onboarding", "start", "--site", dc, "--sku", sku, "--hostname", hostname(late),
		"--ipmi-ip", maassim.Box(late).BMC.Address); err != nil {
		return err
	}
	all, err := d.all(ctx)
	i := slices.IndexFunc(all, func(o onboarding) bool { return o.Hostname == hostname(late) })
	if err != nil || i < 0 || all[i].Status != "pending" || !strings.HasPrefix(all[i].Waiting, "freeze: ") {
		return fmt.Errorf("at a frozen site it is %+v: %w", all, err)
	}
	// The freeze stands at the top of the status screen.
	d.Say("The agents here are part of this demo's program, of which there is no release: status calls that drift, of an unknown build.")
	d.Typed("hostler status")
	text, err := d.Lab.Hostler(ctx, "status")
	d.Printed(text, 40)
	if err != nil || !strings.Contains(text, "the fabric is being rewired") {
		return fmt.Errorf("status does not say that the site is frozen: %w", err)
	}
	d.frozen = all[i]
	if err := d.Hostler(ctx, 4, "unfreeze", "--site", dc, "--reason", "rewired"); err != nil {
		return err
	}
	d.Say("The runs of a site go on at different times within a minute, so that they do not all ask MAAS at once. Meanwhile there is something to mend.")
	return nil
}

func (d *demo) thaw(ctx context.Context) error {
	if err := d.Watched(ctx, 12, "onboarding", "watch", d.frozen.ID); err != nil {
		return err
	}
	if err := d.Hostler(ctx, 40, "status"); err != nil {
		return err
	}
	d.Saw("frozen, nothing began and status said why; unfrozen, it went on by itself to an active node")
	return nil
}
