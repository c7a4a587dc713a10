package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DiskSize is the size of a guest's root disk, in bytes; the file is sparse.
const DiskSize = 8 << 30

// Image is the read-only base that guests boot from.
type Image struct {
	Digest string // of the image's recipe
	Disk   string // raw, one ext4 file system without a partition table
	Kernel string
	Initrd string
}

// CacheDir returns where images are kept: $HOSTLER_CACHE, or hostler in the
// user's cache directory ($XDG_CACHE_HOME, ~/.cache).
func CacheDir() (string, error) {
	if dir := os.Getenv("HOSTLER_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find a cache directory (set HOSTLER_CACHE): %w", err)
	}
	return filepath.Join(dir, "hostler"), nil
}

// BuildImage returns the guest image of the recipe, and builds a missing image first. A build needs
// root and announces itself on log. Of two concurrent builds the second waits for the first and
// uses its image.
func BuildImage(ctx context.Context, log io.Writer) (*Image, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	digest, err := recipeDigest()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "images", digest)
	img := &Image{
		Digest: digest, Disk: filepath.Join(dir, "disk.raw"),
		Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd"),
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, fmt.Errorf("cannot build guest image: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(cache, "images", "lock"))
	if err != nil {
		return nil, fmt.Errorf("cannot build guest image: %w", err)
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return img, nil
	}
	if err := build(ctx, dir, log); err != nil {
		return nil, fmt.Errorf("cannot build guest image %s: %w", digest, err)
	}
	return img, nil
}

func build(ctx context.Context, dir string, log io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("the builder sets owners and device nodes (run it as root)")
	}
	for _, tool := range []string{"mmdebstrap", "mke2fs"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is missing (apt-get install mmdebstrap e2fsprogs)", tool)
		}
	}
	began := time.Now()
	fmt.Fprintf(log, "building the guest image: %d Debian %s packages and what they need, "+
		"about 1 GB of disk and 2 minutes, once; kept in %s\n", len(packages()), suite, dir)
	// The leftovers of a killed build are removed first: the lock shows that no build is running.
	work := dir + ".partial"
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	tree, overlay, out := filepath.Join(work, "tree"), filepath.Join(work, "rootfs"), filepath.Join(work, "image")
	if err := errors.Join(layOut(overlay), os.MkdirAll(out, 0o755)); err != nil {
		return err
	}
	if err := install(ctx, tree, overlay); err != nil {
		return err
	}
	if err := errors.Join(boot(tree, "vmlinuz-*", filepath.Join(out, "vmlinuz")),
		boot(tree, "initrd.img-*", filepath.Join(out, "initrd")), finish(tree)); err != nil {
		return err
	}
	disk := filepath.Join(out, "disk.raw")
	if err := makeDisk(ctx, tree, disk); err != nil {
		return err
	}
	if err := os.Rename(out, dir); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "disk.raw"), &st); err != nil {
		return err
	}
	fmt.Fprintf(log, "built the guest image: %d MB on disk, %.1f minutes\n", st.Blocks*512>>20, time.Since(began).Minutes())
	return nil
}

// install fills tree with the packages. mmdebstrap mounts in a mount namespace
// of its own, so a killed build leaves no mount behind.
func install(ctx context.Context, tree, overlay string) error {
	args := []string{
		"--mode=root", "--variant=minbase", "--format=directory",
		"--aptopt=APT::Install-Recommends \"false\"", "--include=" + strings.Join(packages(), ","),
		"--essential-hook=sync-in " + overlay + " /",
	}
	options, err := aptOptions(ctx)
	if err != nil {
		return err
	}
	for _, o := range options {
		args = append(args, "--aptopt="+o)
	}
	args = append(args, suite, tree)
	sources, err := aptSources()
	if err != nil {
		return err
	}
	return run(ctx, "mmdebstrap", append(args, sources...)...)
}

func makeDisk(ctx context.Context, tree, disk string) error {
	if err := os.WriteFile(disk, nil, 0o644); err != nil {
		return err
	}
	if err := os.Truncate(disk, DiskSize); err != nil {
		return err
	}
	return run(ctx, "mke2fs", "-q", "-F", "-t", "ext4", "-L", "root", "-d", tree, disk)
}

// boot copies the only file of the tree's /boot that matches pattern.
func boot(tree, pattern, to string) error {
	names, err := fs.Glob(os.DirFS(filepath.Join(tree, "boot")), pattern)
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return fmt.Errorf("the tree's /boot has %d files %s, not one", len(names), pattern)
	}
	data, err := os.ReadFile(filepath.Join(tree, "boot", names[0]))
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// run runs a tool to its end; an error contains the tool's output.
func run(ctx context.Context, name string, args ...string) error {
	runtime.LockOSThread() // Pdeathsig refers to the thread that forked
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		text := said.String()
		return fmt.Errorf("%s: %w: %s", name, err, text[max(0, len(text)-2000):])
	}
	return nil
}

// lock takes the lock file, waiting until ctx ends. The lock ends with the process.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = poll(ctx, "the lock of "+path, func() error {
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
