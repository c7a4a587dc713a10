package machine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCoveringIsTheInnermostAndOfTwoTheOneOnTop(t *testing.T) {
	mounts := []Mount{
		{Point: "/", Type: "ext4"},
		{Point: "/var", Type: "xfs"},
		{Point: "/tmp", Type: "tmpfs"},
		{Point: "/tmp", Type: "bind"},
		{Point: "/var/tmpx", Type: "tmpfs"},
	}
	for name, want := range map[string]string{
		"/etc": "ext4", "/var/tmp": "xfs", "/tmp": "bind", "/tmp/a/b": "bind", "/tmpx": "ext4", "/var/tmpx": "tmpfs", "/": "ext4",
	} {
		if got, ok := Covering(mounts, name); !ok || got.Type != want {
			t.Errorf("%s lies on %q, want %q", name, got.Type, want)
		}
	}
	if _, ok := Covering(nil, "/tmp"); ok {
		t.Error("a path lies on no mount where there is none")
	}
}

func TestMountsInsideComeInnermostFirst(t *testing.T) {
	mounts := []Mount{{Point: "/"}, {Point: "/tmp"}, {Point: "/tmp/a"}, {Point: "/tmpx"}, {Point: "/tmp/a/b"}, {Point: "/tmp/c"}}
	var got []string
	for _, mt := range Inside(mounts, "/tmp") {
		got = append(got, mt.Point)
	}
	if want := []string{"/tmp/a/b", "/tmp/c", "/tmp/a"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestGlobWalksThroughNoLink(t *testing.T) {
	m, dir := newMachine(t)
	write(t, filepath.Join(dir, "share1/scratch/x"), "")
	write(t, filepath.Join(dir, "share2/scratch/x"), "")
	write(t, filepath.Join(dir, "share3"), "")
	must(t, os.Symlink("etc", filepath.Join(dir, "share4")))
	for pattern, want := range map[string][]string{
		"/share*":         {"/share1", "/share2", "/share3", "/share4"},
		"/share*/scratch": {"/share1/scratch", "/share2/scratch"},
		"/share*/shadow":  nil,
		"/none*":          nil,
		"/share1/scratch": {"/share1/scratch"},
	} {
		if got, err := m.Glob(pattern); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", pattern, got, err)
		}
	}
	if _, err := m.Glob("/["); err == nil {
		t.Error("a bad pattern matches")
	}
}

func TestALinkOnTheWayIsToldAsOne(t *testing.T) {
	m, dir := newMachine(t)
	write(t, filepath.Join(dir, "real/file"), "")
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	for _, name := range []string{"/link", "/link/file", "/link/none"} {
		if d, err := m.OpenDirStrict(name); !errors.Is(err, unix.ELOOP) {
			t.Errorf("open %s as a directory: %v, %v", name, d, err)
		}
		if _, err := m.ReadStrict(name, 1); !errors.Is(err, unix.ELOOP) {
			t.Errorf("read %s: %v", name, err)
		}
	}
	if st, err := m.Lstat("/link"); err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
		t.Errorf("the link itself: %o, %v", st.Mode, err)
	}
	if _, err := m.Lstat("/link/file"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("through the link: %v", err)
	}
}
