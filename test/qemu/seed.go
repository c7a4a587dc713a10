package qemu

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// keys are the two ends of a guest's ssh. The host's is made for this guest alone.
type keys struct {
	host     ssh.PublicKey
	hostPEM  []byte
	operator ssh.Signer
}

func newKeys(operator ssh.Signer) (keys, error) {
	hostPub, hostKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return keys{}, err
	}
	host, err := ssh.NewPublicKey(hostPub)
	if err != nil {
		return keys{}, err
	}
	block, err := ssh.MarshalPrivateKey(hostKey, "")
	if err != nil {
		return keys{}, err
	}
	if operator == nil {
		operator, err = NewOperator()
	}
	return keys{host: host, hostPEM: pem.EncodeToMemory(block), operator: operator}, err
}

// NewOperator makes the key of an operator who may log in as root.
func NewOperator() (ssh.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return ssh.NewSignerFromSigner(key)
}

func (k keys) authorized() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.operator.PublicKey())))
}

func (k keys) hostLine() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.host)))
}

// writeSeed makes the volume of the guest's second disk: a NoCloud seed, or the harness's overlay
// for a guest that takes its data from SeedURL.
func writeSeed(ctx context.Context, dir string, c Config, k keys) error {
	seed := filepath.Join(dir, "seed")
	if err := os.Mkdir(seed, 0o700); err != nil {
		return err
	}
	label, files := "cidata", noCloud
	if c.SeedURL != "" {
		label, files = overlayLabel, overlaid
	}
	content, err := files(c, k)
	if err != nil {
		return err
	}
	if c.Rootfs != "" {
		raw, err := os.ReadFile(c.Rootfs)
		if err != nil {
			return err
		}
		content[rootfsTar] = raw
	}
	for name, raw := range content {
		if err := os.WriteFile(filepath.Join(seed, name), raw, 0o600); err != nil {
			return err
		}
	}
	if err := run(ctx, "genisoimage", "-quiet", "-V", label, "-J", "-r", "-o", filepath.Join(dir, seedVolume), seed); err != nil {
		return fmt.Errorf("cannot make the guest's volume (apt-get install genisoimage): %w", err)
	}
	return nil
}

const (
	overlayLabel = "harness"
	rootfsTar    = "rootfs.tar"
	overlayTar   = "overlay.tar"
)

// noCloud are the files of a NoCloud seed. The harness's own wishes are vendor-data
// and meta-data, as a provider's would be: the user-data stays as the test gave it.
func noCloud(c Config, k keys) (map[string][]byte, error) {
	meta, err := json.Marshal(map[string]any{
		"instance-id": "i-" + c.Name, "local-hostname": c.Name, "public-keys": []string{k.authorized()},
	})
	if err != nil {
		return nil, err
	}
	wishes := map[string]any{
		"disable_root": false,
		"ssh_keys":     map[string]string{"ed25519_private": string(k.hostPEM), "ed25519_public": k.hostLine()},
	}
	if c.Rootfs != "" {
		wishes["bootcmd"] = unpacking("cidata", rootfsTar)
	}
	vendor, err := json.Marshal(wishes)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"meta-data": meta, "vendor-data": append([]byte("#cloud-config\n"), vendor...),
		"user-data": []byte(cmp.Or(c.UserData, "#cloud-config\n{}\n")),
	}, nil
}

// overlaid returns the files for a guest with a SeedURL: no file of cloud-init. The files that the
// harness needs for its access are laid over the guest's root, as an installer would do.
func overlaid(_ Config, k keys) (map[string][]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name    string
		content string
	}{
		{"etc/ssh/ssh_host_ed25519_key", string(k.hostPEM)},
		{"etc/ssh/ssh_host_ed25519_key.pub", k.hostLine() + "\n"},
		{"root/.ssh/authorized_keys", k.authorized() + "\n"},
	} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write([]byte(f.content)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return map[string][]byte{overlayTar: archive.Bytes()}, nil
}

// seededFrom is the part of the kernel's command line that tells cloud-init the URL of its data and
// sets up the harness's access at the first boot. cloud-init merges the data from the URL over
// these settings, so user-data with a bootcmd locks the harness out.
func seededFrom(url string, archives ...string) string {
	wishes, _ := json.Marshal(map[string]any{ // text alone
		"disable_root": false, "ssh_deletekeys": false, "ssh_genkeytypes": []string{"ed25519"},
		"bootcmd": append(unpacking(overlayLabel, archives...), clockIsSet),
	})
	return "ds=nocloud-net;s=" + url + " cc:" + neturl.PathEscape(string(wishes)) + " end_cc"
}

// clockIsSet marks the kernel's clock as synchronised. A guest's clock is the host's; a machine
// that an installer set up has a time server, a guest has none.
var clockIsSet = []string{"python3", "-c", `import ctypes as c,struct as s;c.CDLL(None).adjtimex(s.pack("iqqqqi164x",28,0,0,0,0,0))`}

// unpacking is a bootcmd that lays a volume's archives over the root, once.
func unpacking(label string, archives ...string) [][]string {
	once := func(name string, argv ...string) []string {
		return append([]string{"cloud-init-per", "once", name}, argv...)
	}
	all := [][]string{once("rootfs-mount", "mount", "-o", "ro", "LABEL="+label, "/mnt")}
	for _, a := range archives {
		all = append(all, once(strings.TrimSuffix(a, ".tar"), "tar", "-C", "/", "-xf", "/mnt/"+a))
	}
	return append(all, once("rootfs-loader", "ldconfig"), once("rootfs-umount", "umount", "/mnt"))
}
