package qemu

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// accelerator is how guests are run, as QEMU's arguments.
type accelerator []string

var (
	// tcg is software emulation. The CPU model is the smallest with the features that TLS needs:
	// newer models add instructions that are slow to emulate.
	tcg = accelerator{"-accel", "tcg,thread=multi,tb-size=512", "-cpu", "Westmere,+rdrand"}
	kvm = accelerator{"-accel", "kvm", "-cpu", "host"}
)

// probeLimit is ample for a kernel under KVM to panic without a disk.
const probeLimit = 15 * time.Second

var probed struct {
	sync.Once
	found accelerator
}

// probe runs once per process. Only a boot proves that KVM works: /dev/kvm may exist, open, accept
// a guest, and never run it.
func (img *Image) probe(ctx context.Context) accelerator {
	probed.Do(func() {
		probed.found = tcg
		f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
		if err != nil {
			return
		}
		f.Close()
		if boots(ctx, kvm, img.Kernel) {
			probed.found = kvm
		}
	})
	return probed.found
}

// boots starts the kernel with nothing to mount and waits for its panic message. By then the kernel
// has used its CPU, memory, timers and console.
func boots(ctx context.Context, accel accelerator, kernel string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	runtime.LockOSThread() // Pdeathsig refers to the thread that forked
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{
		"-machine", "q35", "-smp", "2", "-m", "512", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-serial", "stdio", "-kernel", kernel, "-append", "console=ttyS0 panic=-1",
	}, accel...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	console, err := cmd.Output()
	return err == nil && bytes.Contains(console, []byte("Unable to mount root fs"))
}
