package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/hostler/hostler/test/demo/play"
	"github.com/hostler/hostler/test/lab"
	"github.com/hostler/hostler/test/qemu"
	"github.com/hostler/hostler/test/slurm"
)

const (
	node      = "gpu-01"
	modelSize = 24 << 20
	// sourceAddress is where the source of models is, in the network of the cluster.
	sourceAddress = "10.77.0.2"
	bootstrap     = "slurm.node.bootstrap@v1"
)

type demo struct {
	*play.Play
	image   *qemu.Image
	cluster *slurm.Cluster
	source  *lab.FileSource
	models  models
	slurmd  string // the package, with its version
	staged  string // the operation that staged the model
}

// operation holds the fields of an operation's JSON that the scenes read.
type operation struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

func (d *demo) node(ctx context.Context) error {
	rootfs, err := d.prepare(ctx)
	if err != nil {
		return err
	}
	if err := d.Broker(ctx); err != nil {
		return err
	}
	card, err := d.cluster.Card(ctx)
	if err != nil {
		return err
	}
	defer card.Close()
	machine := qemu.Config{Name: node, Card: card, Rootfs: rootfs}
	if err := d.ByHand(ctx, d.image, machine, ""); err != nil {
		return err
	}
	if err := d.connect(ctx); err != nil {
		return err
	}
	return d.setCluster(ctx)
}

// prepare starts the cluster and the source of models, and returns an archive with what the machine has
// beside its system.
func (d *demo) prepare(ctx context.Context) (rootfs string, err error) {
	if why := slurm.Lacks(); why != "" {
		return "", fmt.Errorf("no cluster can run here: %s", why)
	}
	programs, err := slurm.Programs(ctx)
	if err != nil {
		return "", err
	}
	if d.cluster, err = slurm.Run(ctx, programs); err != nil {
		return "", err
	}
	d.After(d.cluster.Close)
	version, err := d.cluster.Output(ctx, "slurmctld", "-V")
	if err != nil {
		return "", err
	}
	d.Say("%s in namespaces of its own: slurmctld at %s, and slurmrestd behind TLS at %s. It has no node.",
		strings.TrimSpace(version), slurm.Controller, d.cluster.URL)
	if err := d.openRegistry(ctx); err != nil {
		return "", err
	}
	authority, err := d.openSource(ctx)
	if err != nil {
		return "", err
	}
	return d.machine(ctx, programs, authority)
}

// openSource starts the source of models.
func (d *demo) openSource(ctx context.Context) (authority []byte, err error) {
	listener, err := d.cluster.Listen(ctx, sourceAddress, "443")
	if err != nil {
		return nil, err
	}
	d.source = &lab.FileSource{Content: make([]byte, modelSize), CutAt: modelSize / 3}
	_, _ = rand.Read(d.source.Content)
	var server *http.Server
	if server, authority, err = lab.Serve(d.source, listener); err != nil {
		return nil, err
	}
	d.After(func() { _ = server.Close() })
	return authority, nil
}

// setCluster gives the broker the cluster.
func (d *demo) setCluster(ctx context.Context) error {
	for name, content := range map[string][]byte{
		"cluster.token": []byte(d.cluster.Token), "slurm.key": d.cluster.Key, "slurmrestd.pem": []byte(d.cluster.CA),
	} {
		if err := os.WriteFile(d.Lab.Path(name), content, 0o600); err != nil {
			return err
		}
	}
	if err := d.Hostler(ctx, 8, "cluster", "set", "lab", "--backend", "slurm", "--url", d.cluster.URL,
		"--token-file", d.Lab.Path("cluster.token"), "--ca-file", d.Lab.Path("slurmrestd.pem"), "--controller", slurm.Controller,
		"--join-auth", "slurm", "--join-secret-file", d.Lab.Path("slurm.key"), "--reason", "our lab"); err != nil {
		return err
	}
	return d.Hostler(ctx, 6, "node", "list")
}

// inputs writes the inputs of an operation to a file.
func (d *demo) inputs(name string, values map[string]any) (file string, err error) {
	raw, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	file = d.Lab.Path(name + ".json")
	return file, os.WriteFile(file, raw, 0o600)
}

// runs runs an operation on the node up to its good end, and returns its id.
func (d *demo) runs(ctx context.Context, definition, inputs, reason string) (string, error) {
	run := []string{"operation", "run", definition, "--node", node, "--inputs", inputs, "--reason", reason}
	d.Typed(play.Typed(run))
	var o operation
	if err := d.Lab.JSON(ctx, &o, run...); err != nil {
		return "", err
	}
	if err := d.Watched(ctx, 24, "operation", "watch", o.ID); err != nil {
		said, _ := d.Lab.Hostler(ctx, "operation", "logs", o.ID)
		return "", fmt.Errorf("%w\n%s", err, said)
	}
	return o.ID, nil
}

// asks runs a program of Slurm's on the controller, and shows what it says.
func (d *demo) asks(ctx context.Context, argv ...string) (string, error) {
	d.Typed(strings.Join(argv, " ") + "   # on the controller")
	said, err := d.cluster.Output(ctx, argv...)
	if said = strings.TrimSpace(said); said != "" {
		d.Printed(said, 12)
	}
	return said, err
}

func (d *demo) join(ctx context.Context) error {
	before, err := d.asks(ctx, "sinfo", "--Node", "--noheader")
	if err != nil {
		return err
	}
	if strings.Contains(before, node) {
		return fmt.Errorf("the cluster knows %s already: %s", node, before)
	}
	file, err := d.inputs("join", map[string]any{"packages": []string{d.slurmd}, "cluster": "lab", "labels": []string{"h100"}})
	if err != nil {
		return err
	}
	id, err := d.runs(ctx, bootstrap, file, "more nodes for the lab")
	if err != nil {
		return err
	}
	if err := d.Hostler(ctx, 8, "operation", "logs", id); err != nil {
		return err
	}
	after, err := d.asks(ctx, "sinfo", "--Node", "--noheader", "--format=%N %T %f")
	if err != nil {
		return err
	}
	if after != node+" idle h100" {
		return fmt.Errorf("the cluster says %q", after)
	}
	d.Saw("Slurm itself said that %s is a member, idle, with its label; before the operation it had no node", node)
	return nil
}

func (d *demo) job(ctx context.Context) error {
	said, err := d.asks(ctx, "srun", "--nodes=1", "--constraint=h100", "--chdir=/tmp", "/usr/bin/uname", "-nv")
	if err != nil {
		return err
	}
	kernel, err := d.InGuest(ctx, "uname", "-nv")
	if err != nil {
		return err
	}
	if said != kernel || !strings.HasPrefix(said, node+" ") {
		return fmt.Errorf("the job says %q, and the machine %q", said, kernel)
	}
	d.Saw("a job of the cluster's ran on the machine, and its output came back to the controller")
	return nil
}

func (d *demo) leave(ctx context.Context) error {
	file, err := d.inputs("leave", map[string]any{"cluster": "lab"})
	if err != nil {
		return err
	}
	if _, err := d.runs(ctx, "slurm.node.leave@v1", file, "it goes back to the pool"); err != nil {
		return err
	}
	said, err := d.asks(ctx, "sinfo", "--Node", "--noheader")
	if err != nil {
		return err
	}
	if strings.Contains(said, node) {
		return fmt.Errorf("the cluster still knows %s: %s", node, said)
	}
	left, err := d.InGuest(ctx, "sh", "-c", "ls /etc/slurm; systemctl is-active slurmd.service || true")
	if err != nil {
		return err
	}
	if strings.Contains(left, "slurm.key") || !strings.HasSuffix(left, "inactive") {
		return fmt.Errorf("on the machine is left: %s", left)
	}
	d.Saw("Slurm has no such node any more; on the machine slurmd has ended, and the cluster's key is gone")
	return nil
}
