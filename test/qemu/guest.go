package qemu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// HostAddress is the address of the host's loopback for a guest with ReachHost.
const HostAddress = "10.0.2.2"

// GuestAddress is each guest's own address, on a network of its own.
const GuestAddress = "10.0.2.10"

// CardMAC is the hardware address of a guest's Card.
const CardMAC = "52:54:00:77:00:07"

// Config is the configuration of one guest.
type Config struct {
	Name      string            // the host name; the default is "guest"
	UserData  string            // cloud-init's whole user-data
	SeedURL   string            // source of all of cloud-init's data (nocloud-net), in place of UserData; ends in /
	MemoryMB  int               // the default is 1024
	CPUs      int               // the default is 2
	ReachHost bool              // the guest may open connections, to the host at HostAddress and beyond
	Flushes   bool              // the guest's flushed data is on its disks even if QEMU is killed: see Kill
	Disks     []int64           // sizes in bytes of empty disks beside the root disk, /dev/vdc and on
	Cmdline   string            // added to the kernel's command line
	FwCfg     map[string]string // QEMU fw_cfg entries, by name (opt/…)
	Args      []string          // more of QEMU's own, for devices that no other field has; no snapshot is then to be had
	Rootfs    string            // a tar on the host, unpacked at / before anything else of the first boot
	TSC       bool              // the kernel's clock is the processor's, as on real machines; SaveVM then fails
	Serial    string            // of the root disk, up to 20 characters; none by default
	Card      *os.File          // the other end of a second network card, a tap device; no snapshot is then to be had
	Operator  ssh.Signer        // root accepts its key; by default the guest gets a new key of its own
}

// Guest is one running machine.
type Guest struct {
	name       string
	image      *Image
	config     Config
	dir        string
	lock       *os.File
	keys       keys
	drives     []string // names of the writable drives in dir; the root disk is the first
	monitor    *monitor
	sshAddress string
	alive      context.Context // ends with the QEMU process; the cause says how QEMU ended
	pid        int             // of QEMU and its process group; 0 before QEMU runs

	mu  sync.Mutex // guards ssh
	ssh *ssh.Client
}

// Start boots a guest for a test and ends it with the test. If the test fails, the guest's console
// is logged.
func Start(t testing.TB, img *Image, c Config) *Guest {
	t.Helper()
	g, err := Boot(t.Context(), img, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(g.consoleTail())
		}
		g.Close()
	})
	return g
}

// Boot starts a guest and returns as soon as QEMU runs: the caller waits for what it needs of the
// guest. The caller must Close the guest.
func Boot(ctx context.Context, img *Image, c Config) (*Guest, error) {
	if c.Name == "" {
		c.Name = "guest"
	}
	sweep()
	g := &Guest{name: c.Name, image: img, config: c}
	err := g.settle()
	if err == nil {
		err = g.furnish(ctx)
	}
	if err == nil {
		err = g.start(ctx)
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("cannot start guest %s: %w", c.Name, err)
	}
	return g, nil
}

// settle gives the guest a directory of its own.
func (g *Guest) settle() (err error) {
	if g.dir, err = os.MkdirTemp("", dirPrefix); err != nil {
		return err
	}
	if g.lock, err = os.Create(g.path("lock")); err != nil {
		return err
	}
	return unix.Flock(int(g.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// furnish creates the files that a new guest boots from.
func (g *Guest) furnish(ctx context.Context) (err error) {
	if g.keys, err = newKeys(g.config.Operator); err != nil {
		return err
	}
	if err := writeSeed(ctx, g.dir, g.config, g.keys); err != nil {
		return err
	}
	g.drives = []string{rootDrive}
	if err := run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", g.image.Disk, g.Disk()); err != nil {
		return err
	}
	for i, size := range g.config.Disks {
		name := fmt.Sprintf("disk%d.qcow2", i)
		if err := run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", g.path(name), strconv.FormatInt(size, 10)); err != nil {
			return err
		}
		g.drives = append(g.drives, name)
	}
	return nil
}

// start runs QEMU, with these arguments more.
func (g *Guest) start(ctx context.Context, more ...string) error {
	if err := g.spawn(slices.Concat(g.image.probe(ctx), g.args(), more)); err != nil {
		return err
	}
	err := g.wait(ctx, "QEMU's monitor", func() (err error) {
		g.monitor, err = dialMonitor(ctx, g.path("qmp"))
		return err
	})
	if err != nil {
		return err
	}
	return g.forward(ctx)
}

// args returns QEMU's arguments. Every writable drive is qcow2, or savevm would refuse. The seed
// comes second, so that it is /dev/vdb whatever other disks there are.
func (g *Guest) args() []string {
	img, c, restrict := g.image, g.config, "on"
	if c.ReachHost {
		restrict = "off"
	}
	// The clock is not the TSC: QEMU never sets the TSC back, so after a loadvm the guest would see
	// all the time since the snapshot pass. acpi_pm is a device, and each read of the clock a
	// system call.
	clock := "clocksource=acpi_pm tsc=unstable"
	if c.TSC {
		clock = "clocksource=tsc tsc=reliable"
	}
	cmdline := "root=/dev/vda ro console=ttyS0 quiet mitigations=off " + clock + " nokaslr audit=0 " + c.Cmdline
	if c.SeedURL != "" {
		archives := []string{overlayTar}
		if c.Rootfs != "" {
			archives = append(archives, rootfsTar)
		}
		cmdline += " " + seededFrom(c.SeedURL, archives...)
	}
	args := []string{
		"-name", c.Name, "-machine", "q35", "-smp", strconv.Itoa(cmp.Or(c.CPUs, 2)), "-m", strconv.Itoa(cmp.Or(c.MemoryMB, 1024)),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-chardev", "file,id=console,append=on,path=" + g.path("console.log"), "-serial", "chardev:console",
		"-qmp", "unix:" + g.path("qmp") + ",server=on,wait=off",
		"-kernel", img.Kernel, "-initrd", img.Initrd, "-append", strings.TrimSpace(cmdline),
		"-netdev", "user,id=net,dhcpstart=" + GuestAddress + ",restrict=" + restrict, "-device", "virtio-net-pci,netdev=net,romfile=",
		"-device", "virtio-rng-pci",
	}
	// Unsafe keeps the qcow2 file's metadata in QEMU's memory until QEMU ends by itself.
	cache := "unsafe"
	if c.Flushes {
		cache = "writeback"
	}
	for i, drive := range g.drives {
		how := "format=qcow2,cache=" + cache + ",discard=unmap,file=" + g.path(drive)
		if i == 0 && c.Serial != "" {
			args = append(args, "-drive", "if=none,id=root,"+how, "-device", "virtio-blk-pci,drive=root,serial="+c.Serial)
		} else {
			args = append(args, "-drive", "if=virtio,"+how)
		}
		if i == 0 {
			args = append(args, "-drive", "if=virtio,format=raw,readonly=on,file="+g.path(seedVolume))
		}
	}
	if c.Card != nil {
		args = append(args, "-netdev", "tap,id=card,fd=3", "-device", "virtio-net-pci,netdev=card,romfile=,mac="+CardMAC)
	}
	for name, value := range c.FwCfg {
		args = append(args, "-fw_cfg", "name="+name+",string="+strings.ReplaceAll(value, ",", ",,"))
	}
	return append(args, c.Args...)
}

// spawn starts QEMU in a process group of its own, on a thread that stays until QEMU ends. The
// kernel kills QEMU when the thread dies, even by kill -9.
func (g *Guest) spawn(args []string) error {
	said, err := os.Create(g.path("qemu.log"))
	if err != nil {
		return err
	}
	alive, ended := context.WithCancelCause(context.Background())
	g.alive = alive
	started := make(chan error)
	go func() {
		defer said.Close()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.Command("qemu-system-x86_64", args...)
		cmd.Stdout, cmd.Stderr = said, said
		if g.config.Card != nil {
			cmd.ExtraFiles = []*os.File{g.config.Card} // number 3
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		g.pid = cmd.Process.Pid
		started <- nil
		err := cmd.Wait()
		text, _ := os.ReadFile(g.path("qemu.log"))
		ended(fmt.Errorf("QEMU ended: %v: %s", err, strings.TrimSpace(string(text))))
	}()
	return <-started
}

var forwardedPort = regexp.MustCompile(`TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s`)

// forward lets QEMU choose a free port of the host's loopback for the guest's sshd, and asks QEMU
// for the number. So no other process can take the port in between.
func (g *Guest) forward(ctx context.Context) error {
	said, err := g.monitor.human(ctx, "hostfwd_add net tcp:127.0.0.1:0-:22")
	if err == nil && said != "" {
		err = errors.New(said)
	}
	if err != nil {
		return fmt.Errorf("cannot forward ssh: %w", err)
	}
	if said, err = g.monitor.human(ctx, "info usernet"); err != nil {
		return err
	}
	port := forwardedPort.FindStringSubmatch(said)
	if port == nil {
		return fmt.Errorf("cannot find the forwarded port in %q", said)
	}
	g.sshAddress = net.JoinHostPort("127.0.0.1", port[1])
	return nil
}

// Close ends the guest like a power cut and removes its directory.
func (g *Guest) Close() error {
	g.hangUp()
	if g.pid != 0 && g.alive.Err() == nil {
		_ = syscall.Kill(-g.pid, syscall.SIGKILL)
		<-g.alive.Done()
	}
	if g.monitor != nil {
		g.monitor.conn.Close()
	}
	var err error
	if g.dir != "" {
		err = os.RemoveAll(g.dir)
	}
	if g.lock != nil {
		g.lock.Close()
	}
	return err
}

// Files in a guest's directory, besides its other drives.
const (
	dirPrefix  = "hostler-qemu-"
	rootDrive  = "root.qcow2"
	seedVolume = "seed.iso"
)

// sweep removes the directories that killed processes left behind: their lock is free. A young
// directory may not have a lock yet, and stays.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range dirs {
		st, err := os.Stat(dir)
		if err != nil || time.Since(st.ModTime()) < time.Minute {
			continue
		}
		f, err := os.Open(filepath.Join(dir, "lock"))
		if err == nil && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		if errors.Is(err, os.ErrNotExist) {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}

// Disk is the file with all data on the guest's root disk that was not overwritten. The data's
// order in the file may differ.
func (g *Guest) Disk() string { return g.path(rootDrive) }

func (g *Guest) path(name string) string { return filepath.Join(g.dir, name) }
