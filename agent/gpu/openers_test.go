package gpu

import (
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/machine"
)

func TestADeviceFileIsKnownByItsNumber(t *testing.T) {
	majors := parseMajors("Character devices:\n  1 mem\n195 nvidia-frontend\n511 nvidia-uvm\n236 kfd\n\nBlock devices:\n511 sd\n")
	cases := []struct {
		major, minor uint32
		want         string
	}{
		{195, 0, "/dev/nvidia0"},
		{195, 17, "/dev/nvidia17"},
		{195, 255, "/dev/nvidiactl"},
		{195, 254, "/dev/nvidia-modeset"},
		{511, 0, "/dev/nvidia-uvm"},
		{236, 0, "/dev/kfd"},
		{226, 128, "/dev/dri/renderD128"},
		{226, 0, ""},
		{1, 3, ""},
		{999, 0, ""},
	}
	for _, c := range cases {
		if got := nodeOf(unix.Mkdev(c.major, c.minor), majors); got != c.want {
			t.Errorf("%d:%d is %q, want %q", c.major, c.minor, got, c.want)
		}
	}
}

// The device is /dev/full in place of a GPU's: few have it open.
func TestAnOpenDeviceFileIsFoundByWhoeverHasIt(t *testing.T) {
	m, err := machine.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	file, err := os.Open("/dev/full")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	holder := exec.CommandContext(t.Context(), "sleep", "1000")
	holder.ExtraFiles = []*os.File{file}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	}()
	all, err := openers(m, func(rdev uint64) string {
		if rdev == unix.Mkdev(1, 7) {
			return "/dev/nvidia0"
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Opener{PID: holder.Process.Pid, Name: "sleep", Nodes: []string{"/dev/nvidia0"}}
	if !slices.ContainsFunc(all, func(o Opener) bool { return reflect.DeepEqual(o, want) }) {
		t.Errorf("%+v is not among %+v", want, all)
	}
	if slices.ContainsFunc(all, func(o Opener) bool { return o.PID == os.Getpid() }) {
		t.Error("the process that looks is among those it finds")
	}
}
