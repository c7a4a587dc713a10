package gpu_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hostler/hostler/agent/gpu"
)

// The machine may be slow to start a child: Silence grows until the child has reached the place of
// the hang.
func TestAHungHelperIsKilledAndSaidToHaveHung(t *testing.T) {
	for place, before := range map[string]string{"open": "", "fill": gpu.PhaseTake, "verify": gpu.PhaseFill} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			d := l.device(0)
			l.faults("fault.0 hang " + place)
			reached := before == ""
			for l.Silence = time.Second / 2; ; l.Silence *= 4 {
				_, err := l.Scrub(t.Context(), d, gpu.ScrubOptions{Nonce: nonce}, func(p gpu.Progress) {
					reached = reached || p.Phase == before
				})
				if codeOf(err) != gpu.CodeHelperHung {
					t.Fatalf("%v", err)
				}
				if reached {
					break
				}
				if l.Silence > time.Minute {
					t.Fatal("it never came so far")
				}
			}
			// The killed child holds nothing.
			l.faults()
			l.Silence = l.Deadline
			if r, err := l.scrub(d); err != nil || r.CoveredBytes != 12*mib {
				t.Errorf("after the hang: %+v, %v", r, err)
			}
		})
	}
}

func TestCancelStopsInTheMiddleOfAChunk(t *testing.T) {
	l := newLab(t)
	d := l.device(0)
	l.faults("fault.0 hang verify") // in a chunk, for ever
	ctx, cancel := context.WithCancel(t.Context())
	_, err := l.Scrub(ctx, d, gpu.ScrubOptions{Nonce: nonce}, func(p gpu.Progress) {
		if p.Phase == gpu.PhaseFill && p.DoneBytes == p.TotalBytes {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	if holders, err := l.Holders(t.Context(), d); err != nil || len(holders) != 0 {
		t.Errorf("after the cancel %+v hold the GPU (%v)", holders, err)
	}
}

func TestHelpersSideBySideDoNotHoldTheGPUForEachOther(t *testing.T) {
	l := newLab(t)
	d := l.device(0)
	l.faults("fault.0 hang verify")
	ctx, cancel := context.WithCancel(t.Context())
	filled, ended := make(chan bool, 1), make(chan bool)
	go func() {
		defer close(ended)
		_, _ = l.Scrub(ctx, d, gpu.ScrubOptions{Nonce: nonce}, func(p gpu.Progress) {
			if p.Phase == gpu.PhaseFill && p.DoneBytes == p.TotalBytes {
				filled <- true
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	select {
	case <-filled:
	case <-ended:
		t.Fatal("the first helper ended")
	}
	if holders, err := l.Holders(t.Context(), d); err != nil || len(holders) != 0 {
		t.Errorf("%+v, %v", holders, err)
	}
	pid, _ := l.tenant(d, "65536")
	if holders, err := l.Holders(t.Context(), d); err != nil || len(holders) != 1 || holders[0].PID != uint32(pid) {
		t.Errorf("beside a tenant: %+v, %v", holders, err)
	}
}

func TestAHelperThatSIGKILLDoesNotEndIsStuck(t *testing.T) {
	l := newLab(t)
	d := l.device(0)
	l.faults("fault.0 hang fill")
	// The child is stopped, wherever it is, and a stopped process does not end with time.
	l.Silence, l.Grace = time.Second/3, time.Second/3
	// A stopped process behaves like a process in uninterruptible sleep: it does not even notice
	// the end of its stdin.
	group := 0
	l.KillWith(func(g int) {
		group = g
		_ = syscall.Kill(-g, syscall.SIGSTOP)
		for stopped, end := false, time.Now().Add(time.Minute); !stopped && time.Now().Before(end); {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", g))
			stopped = strings.Contains(string(status), "T (stopped)")
		}
	})
	t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	_, err := l.scrub(d)
	if codeOf(err) != gpu.CodeHelperStuck || !strings.Contains(err.Error(), strconv.Itoa(group)) {
		t.Fatalf("%v", err)
	}
}

// Nobody kills the helper of an agent that was killed itself: the helper must end by itself.
func TestTheHelperEndsWhenTheAgentIsGone(t *testing.T) {
	l := newLab(t)
	d := l.device(0)
	l.faults("fault.0 hang fill")
	child := exec.Command("/proc/self/exe", childWord)
	child.Env = l.Machine.Env()
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill() }()
	request := `{"ask":"scrub","vendor":"nvidia","uuid":"` + d.UUID + `","scrub":{"nonce":"MDEyMzQ1Njc4OWFiY2RlZg=="}}` + "\n"
	if _, err := stdin.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 100)); err != nil { // the child has memory now, and is about to hang
		t.Fatal(err)
	}
	stdin.Close()
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("it is still there")
	}
	l.faults()
	if _, err := l.scrub(d); err != nil {
		t.Errorf("the GPU is not free again: %v", err)
	}
}
