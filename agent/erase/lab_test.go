package erase

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/command"
	"github.com/hostler/hostler/agent/erase/erasetest"
	"github.com/hostler/hostler/agent/machine"
	"github.com/hostler/hostler/taskcatalog"
)

const labSize = 8<<20 + 512 // no whole number of anything but sectors

// standIn is a program that stands in for the tools. It is a separate program, because this test
// binary with the race detector takes a hundred times as long to start.
var standIn string

func TestMain(m *testing.M) { os.Exit(withStandIn(m)) }

func withStandIn(m *testing.M) int {
	dir, err := os.MkdirTemp("", "standin-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		standIn = filepath.Join(dir, "standin")
		build := exec.Command("go", "build", "-o", standIn, "testdata/standin/main.go")
		build.Env, build.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the stand-in for the tools:", err)
		return 1
	}
	return m.Run()
}

// play is a drive simulated by the stand-in.
type play = erasetest.Drive

// lab is a machine in a directory, with a sysfs of its own and files for disks.
type lab struct {
	*Erase
	t    *testing.T
	root string
	busy []string // disks that the kernel reports as in use
	// opened is called once all disks were judged and before any is touched.
	touched func(name string) // before the first write to a disk
	change  func(d *file)
	said    []string
	mu      sync.Mutex
	mounts  []string
	last    int // minor number
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, root: t.TempDir(), mounts: []string{"22 1 254:1 / / rw - ext4 /dev/vda1 rw"}}
	for _, dir := range []string{"usr/sbin", "dev", "play", "sys/block", "sys/class/block", "sys/class/nvme", "sys/dev/block"} {
		l.ok(os.MkdirAll(filepath.Join(l.root, dir), 0o755))
	}
	for _, tool := range []string{"nvme", "hdparm", "blkdiscard"} {
		l.ok(os.Link(standIn, filepath.Join(l.root, "usr/sbin", tool)))
	}
	l.put("proc/swaps", "Filename Type Size Used Priority\n")
	m, err := machine.Open(l.root)
	l.ok(err)
	commands, err := command.New(l.root, time.Now)
	l.ok(err)
	commands.Pause = time.Millisecond
	commands.Account = func(string) (*syscall.Credential, error) {
		return &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), NoSetGroups: true}, nil
	}
	l.Erase = &Erase{
		Machine: m, Devices: l, Commands: commands, Params: &taskcatalog.DiskEraseParams{Mode: taskcatalog.EraseSecure},
		Rand: rand.Reader, Log: zaptest.NewLogger(t), Interval: time.Millisecond, Overwrites: &notes{}, Stride: chunk,
		Progress: func(step string, index, total, percent int, message string) {
			l.said = append(l.said, fmt.Sprintf("%s %d/%d %d %s", step, index, total, percent, message))
		},
	}
	t.Cleanup(func() {
		l.neverFormatsWithoutErasing()
		l.ok(errors.Join(m.Close(), commands.Close()))
	})
	return l
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) put(name, text string) {
	l.t.Helper()
	name = filepath.Join(l.root, name)
	l.ok(os.MkdirAll(filepath.Dir(name), 0o755))
	l.ok(os.WriteFile(name, []byte(text), 0o644))
}

// link makes a link of sysfs to a path below /sys.
func (l *lab) link(name, to string) {
	l.t.Helper()
	rel, err := filepath.Rel(path.Dir("/sys/"+name), "/sys/"+to)
	l.ok(err)
	name = filepath.Join(l.root, "sys", name)
	l.ok(os.MkdirAll(filepath.Dir(name), 0o755))
	_ = os.Remove(name)
	l.ok(os.Symlink(rel, name))
}

// block adds a block device at a path of /sys, with a file for its content.
func (l *lab) block(name, dir string, files map[string]string) (number string) {
	l.t.Helper()
	l.last++
	number = fmt.Sprintf("259:%d", l.last)
	l.put("sys/"+dir+"/dev", number+"\n")
	l.put("sys/"+dir+"/size", fmt.Sprintln(labSize/512))
	l.put("sys/"+dir+"/ro", "0\n")
	l.put("sys/"+dir+"/queue/logical_block_size", "512\n")
	for file, text := range files {
		l.put("sys/"+dir+"/"+file, text+"\n")
	}
	l.link("class/block/"+name, dir)
	l.link("dev/block/"+number, dir)
	return number
}

func (l *lab) disk(name, dir string, files map[string]string) {
	l.t.Helper()
	l.block(name, dir, files)
	l.link("block/"+name, dir)
	l.put("dev/"+name, strings.Repeat("the tenant's data, ", labSize/19+1)[:labSize])
}

// partition adds a partition to a disk.
func (l *lab) partition(disk, name string) (number string) {
	l.t.Helper()
	dir, err := os.Readlink(filepath.Join(l.root, "sys/block", disk))
	l.ok(err)
	return l.block(name, path.Join(strings.TrimPrefix(dir, "../"), name), map[string]string{"partition": name[len(name)-1:], "start": "2048", "size": "8192"})
}

const (
	serial = "S6ABNE0T1"
	model  = "SAMSUNG MZQL23T8HCLS-00A07"
)

// nvme adds a controller with its first namespace, and names the namespace in the task.
func (l *lab) nvme(controller string, p play) *taskcatalog.DiskName {
	l.t.Helper()
	n := controller[len("nvme"):]
	pci := "devices/pci0000:00/0000:00:0" + n + ".0"
	dir := pci + "/nvme/" + controller
	l.put("sys/"+pci+"/vendor", "0x144d\n")
	l.put("sys/"+dir+"/transport", "pcie\n")
	l.put("sys/"+dir+"/serial", serial+n+"   \n")
	l.put("sys/"+dir+"/model", model+"      \n")
	l.put("sys/"+dir+"/dev", "240:"+n+"\n")
	l.link(dir+"/device", pci)
	l.link("class/nvme/"+controller, dir)
	p.Serial, p.Model, p.Namespaces = serial+n, model, []int{1}
	erasetest.Write(filepath.Join(l.root, "play", controller+".json"), p)
	return l.namespace(controller, 1)
}

// becomes changes the stand-in's state of a device.
func (l *lab) becomes(device string, change func(p *play)) {
	l.t.Helper()
	name := filepath.Join(l.root, "play", device+".json")
	p := erasetest.Read(name)
	change(&p)
	erasetest.Write(name, p)
}

// namespace adds a namespace and names it in the task.
func (l *lab) namespace(controller string, nsid int) *taskcatalog.DiskName {
	l.t.Helper()
	name := fmt.Sprintf("%sn%d", controller, nsid)
	dir, err := os.Readlink(filepath.Join(l.root, "sys/class/nvme", controller))
	l.ok(err)
	dir = strings.TrimPrefix(dir, "../../")
	nguid := fmt.Sprintf("36344630-5290-4269-0025-3845000%s000%d", controller[len("nvme"):], nsid)
	l.disk(name, dir+"/"+name, map[string]string{"nsid": fmt.Sprint(nsid), "nguid": nguid, "wwid": "eui." + strings.ReplaceAll(nguid, "-", "")})
	l.link(dir+"/"+name+"/device", dir)
	play := filepath.Join(l.root, "play", controller+".json")
	if p := erasetest.Read(play); !slices.Contains(p.Namespaces, nsid) {
		p.Namespaces = append(p.Namespaces, nsid)
		erasetest.Write(play, p)
	}
	erasetest.Write(filepath.Join(l.root, "play", name+".json"), erasetest.Read(play))
	return l.names(taskcatalog.DiskName{Serial: serial + controller[len("nvme"):], NGUID: nguid, Model: model, SizeBytes: labSize})
}

// ata adds a SATA disk at a path below /sys and names it in the task.
func (l *lab) ata(name, dir string, p play) *taskcatalog.DiskName {
	l.t.Helper()
	p.Serial, p.Model = "WD-"+name, "WDC WUH721818ALE"
	device := dir[:strings.LastIndex(dir, "/block/")]
	l.put("sys/"+device+"/vendor", "ATA     \n")
	l.put("sys/"+device+"/model", p.Model+"\n")
	l.put("sys/"+device+"/wwid", "naa.5000cca2"+fmt.Sprintf("%08x", name[2])+"\n")
	l.put("sys/"+device+"/vpd_pg80", "\x00\x80\x00"+string(rune(len(p.Serial)))+p.Serial)
	l.disk(name, dir, nil)
	l.link(dir+"/device", device)
	erasetest.Write(filepath.Join(l.root, "play", name+".json"), p)
	return l.names(taskcatalog.DiskName{Serial: p.Serial, Model: p.Model, SizeBytes: labSize})
}

const sataPath = "devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda"

func (l *lab) names(d taskcatalog.DiskName) *taskcatalog.DiskName {
	l.Params.Disks = append(l.Params.Disks, d)
	return &l.Params.Disks[len(l.Params.Disks)-1]
}

// efi makes the machine booted by EFI, with these variables.
func (l *lab) efi(variables map[string]string) {
	l.t.Helper()
	l.put("sys/firmware/efi/fw_platform_size", "64\n")
	for name, text := range variables {
		l.put(efiVariables+name+efiGlobal, text)
		var st unix.Stat_t
		l.ok(unix.Stat(filepath.Join(l.root, efiVariables+name+efiGlobal), &st))
		l.mounted(fmt.Sprintf("30 22 %d:%d / %s rw - efivarfs efivarfs rw", unix.Major(st.Dev), unix.Minor(st.Dev), path.Clean(efiVariables)))
	}
}

func (l *lab) mounted(line string) { l.mounts = append(l.mounts, line) }

// do runs the task.
func (l *lab) do(ctx context.Context) (*taskcatalog.DiskEraseResult, taskcatalog.Report, error) {
	l.targets = nil
	l.put("proc/1/mountinfo", strings.Join(l.mounts, "\n")+"\n")
	return l.Do(ctx)
}

// good runs a task that must succeed.
func (l *lab) good() *taskcatalog.DiskEraseResult {
	l.t.Helper()
	res, _, err := l.do(l.t.Context())
	l.ok(err)
	typ, err := taskcatalog.Latest("node.disk_erase")
	l.ok(err)
	raw, err := taskcatalog.Encode(res)
	l.ok(err)
	_, err = typ.DecodeResult(raw)
	l.ok(err)
	return res
}

// refused runs a task that must touch nothing.
func (l *lab) refused(want taskcatalog.Code) {
	l.t.Helper()
	before := l.contents()
	res, _, err := l.do(l.t.Context())
	if got := taskcatalog.CodeOf(err, "none"); got != want {
		l.t.Fatalf("refused with %s (%v), want %s", got, err, want)
	}
	if res != nil {
		l.t.Errorf("a task that was refused has a result: %+v", res)
	}
	if !bytes.Equal(before, l.contents()) {
		l.t.Error("a disk was written to")
	}
	for _, line := range l.lines() {
		verb := strings.Fields(line)[1]
		if !slices.Contains([]string{"id-ctrl", "list-ns", "-I"}, verb) {
			l.t.Errorf("%s was run", line)
		}
	}
}

func (l *lab) contents() []byte {
	var all []byte
	names, _ := filepath.Glob(filepath.Join(l.root, "dev/*"))
	for _, name := range names {
		raw, err := os.ReadFile(name)
		l.ok(err)
		all = append(all, raw...)
	}
	return all
}

// holds reports whether a disk still has the tenant's data anywhere.
func (l *lab) holds(name string) bool {
	raw, err := os.ReadFile(filepath.Join(l.root, "dev", name))
	l.ok(err)
	return bytes.Contains(raw, []byte("tenant's"))
}

// lines are the executed command lines.
func (l *lab) lines() []string {
	raw, err := os.ReadFile(filepath.Join(l.root, "play/log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	l.ok(err)
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// ran are the command lines that change something.
func (l *lab) ran() []string {
	return slices.DeleteFunc(l.lines(), func(line string) bool {
		return slices.Contains([]string{"id-ctrl", "id-ns", "list-ns", "sanitize-log", "-I"}, strings.Fields(line)[1])
	})
}

// neverFormatsWithoutErasing holds of every test.
func (l *lab) neverFormatsWithoutErasing() {
	for _, line := range l.lines() {
		words := strings.Fields(line)
		if words[1] == "format" && !slices.Contains(words, "--ses=1") && !slices.Contains(words, "--ses=2") {
			l.t.Errorf("a format that erases nothing: %s", line)
		}
		if strings.Contains(line, "--ses=0") || strings.Contains(line, "-s 0") {
			l.t.Errorf("erase setting 0: %s", line)
		}
	}
}

// wantRan compares the changing command lines with a list.
func (l *lab) wantRan(want ...string) {
	l.t.Helper()
	if got := l.ran(); !slices.Equal(got, want) {
		l.t.Errorf("ran\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Open and Is make the lab an implementation of Devices.
func (l *lab) Open(name, number string) (Device, error) {
	if slices.Contains(l.busy, name) {
		return nil, &os.PathError{Op: "open", Path: name, Err: unix.EBUSY}
	}
	f, err := os.OpenFile(filepath.Join(l.root, "dev", name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	d := &file{File: f, name: name, number: number, size: labSize}
	if play := filepath.Join(l.root, "play", name+".json"); strings.HasPrefix(name, "sd") && erasetest.Read(play).Locked {
		locked := func([]byte, int64) error {
			if erasetest.Read(play).Locked {
				return unix.EIO
			}
			return nil
		}
		d.write, d.read = locked, locked
	}
	if l.change != nil {
		l.change(d)
	}
	return d, nil
}

func (l *lab) Is(name, _ string, _ bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.touched != nil {
		l.touched(name)
	}
	return nil
}

// file is a disk's content, with faults.
type file struct {
	*os.File
	name, number string
	size         int64
	write, read  func(b []byte, at int64) error
	unsynced     atomic.Bool
}

// notes is an Overwrites in memory.
type notes struct {
	mu    sync.Mutex
	all   map[string]Overwrite
	noted func(o Overwrite)
	fails error
}

func (n *notes) Overwrite(disk string) (Overwrite, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o, ok := n.all[disk]
	return o, ok, n.fails
}

func (n *notes) PutOverwrite(disk string, o Overwrite) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.noted != nil {
		n.noted(o)
	}
	if n.all == nil {
		n.all = map[string]Overwrite{}
	}
	n.all[disk] = o
	return n.fails
}

func (n *notes) DeleteOverwrite(disk string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, disk)
	return n.fails
}

func (f *file) Sync() error             { f.unsynced.Store(false); return nil }
func (f *file) Size() (int64, error)    { return f.size, nil }
func (f *file) Number() (string, error) { return f.number, nil }

func (f *file) WriteAt(b []byte, at int64) (int, error) {
	if f.write != nil {
		if err := f.write(b, at); err != nil {
			return 0, err
		}
	}
	f.unsynced.Store(true)
	return f.File.WriteAt(b, at)
}

func (f *file) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	if f.read != nil && err == nil {
		err = f.read(b, at)
	}
	return n, err
}
