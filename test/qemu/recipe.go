package qemu

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// formatVersion is raised when the builder makes another image of the same recipe.
const formatVersion = 1

const suite = "bookworm"

//go:embed packages.txt
var packageList string

// rootfs is laid over the image before its packages are configured.
//
//go:embed all:rootfs
var rootfs embed.FS

// maskedUnits would run during a test, or cost seconds at boot.
var maskedUnits = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "getty@tty1.service",
	"systemd-pstore.service", "cloud-init-hotplugd.socket",
}

// finalFiles replace files of the packages: the builder's resolver and apt settings, and the
// identity that every guest must create for itself.
var finalFiles = map[string]string{
	"etc/fstab":                         "/dev/vda / ext4 errors=remount-ro 0 0\n",
	"etc/hostname":                      "localhost\n",
	"etc/hosts":                         "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
	"etc/machine-id":                    "",
	"etc/resolv.conf":                   "nameserver 10.0.2.3\n",
	"etc/apt/sources.list":              "",
	"etc/cloud/cloud.cfg.d/90_dpkg.cfg": "# see 95_guest.cfg\n",
}

// finalRemovals are globs below the image's root.
var finalRemovals = []string{
	"etc/apt/sources.list.d/*", "etc/apt/apt.conf.d/99mmdebstrap", "etc/ssh/ssh_host_*",
	"var/cache/apt/archives/*.deb", "var/log/*.log", "var/log/apt/*",
	// The links that enable the container engines: no engine runs in a guest unless a test starts
	// it.
	"etc/systemd/system/*.wants/docker.*", "etc/systemd/system/*.wants/containerd.service", "etc/systemd/system/*.wants/podman*",
	// The links of the iSCSI initiator: a test with a network disk starts it.
	"etc/systemd/system/*.wants/*iscsi*", "etc/iscsi/initiatorname.iscsi",
}

func packages() []string {
	var names []string
	for line := range strings.Lines(packageList) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			names = append(names, line)
		}
	}
	return names
}

// recipeDigest names the image: another recipe is another image. The packages' versions are not
// part of the digest; a built image never changes.
func recipeDigest() (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %q %q %q %q\n", formatVersion, suite, packages(), maskedUnits, finalFiles, finalRemovals)
	err := fs.WalkDir(rootfs, "rootfs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := rootfs.ReadFile(path)
		fmt.Fprintf(h, "%s %q\n", path, data)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}

// layOut writes the files of rootfs below dir, owned by the calling user.
func layOut(dir string) error {
	return fs.WalkDir(rootfs, "rootfs", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, "rootfs"))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := rootfs.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o644)
	})
}

// finish turns a tree of installed packages into an image tree for any guest. It works through
// os.Root: links in the tree must not lead to this machine.
func finish(tree string) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, pattern := range finalRemovals {
		names, err := fs.Glob(root.FS(), pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := root.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	for name, content := range finalFiles {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		if err := root.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, unit := range maskedUnits {
		link := "etc/systemd/system/" + unit
		if err := root.RemoveAll(link); err != nil {
			return err
		}
		if err := root.Symlink("/dev/null", link); err != nil {
			return err
		}
	}
	wants := "etc/systemd/system/multi-user.target.wants/systemd-networkd.service"
	if err := root.RemoveAll(wants); err != nil {
		return err
	}
	return root.Symlink("/lib/systemd/system/systemd-networkd.service", wants)
}
