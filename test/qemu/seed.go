package qemu

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// keys are the two ends of a guest's ssh, made for this guest alone.
type keys struct {
	host     ssh.PublicKey
	hostPEM  []byte
	operator ssh.Signer
}

func newKeys() (keys, error) {
	hostPub, hostKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return keys{}, err
	}
	_, userKey, err := ed25519.GenerateKey(rand.Reader)
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
	operator, err := ssh.NewSignerFromSigner(userKey)
	return keys{host: host, hostPEM: pem.EncodeToMemory(block), operator: operator}, err
}

// writeSeed makes the NoCloud volume. The harness's own wishes are vendor-data
// and meta-data, as a provider's would be: the user-data stays as the test gave it.
func writeSeed(ctx context.Context, dir string, c Config, k keys) (string, error) {
	authorized := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.operator.PublicKey())))
	meta, err := json.Marshal(map[string]any{
		"instance-id": "i-" + c.Name, "local-hostname": c.Name, "public-keys": []string{authorized},
	})
	if err != nil {
		return "", err
	}
	wishes := map[string]any{
		"disable_root": false,
		"ssh_keys": map[string]string{
			"ed25519_private": string(k.hostPEM),
			"ed25519_public":  strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.host))),
		},
	}
	if c.Rootfs != "" {
		wishes["bootcmd"] = [][]string{
			{"cloud-init-per", "once", "rootfs-mount", "mount", "-o", "ro", "LABEL=cidata", "/mnt"},
			{"cloud-init-per", "once", "rootfs-unpack", "tar", "-C", "/", "-xf", "/mnt/rootfs.tar"},
			{"cloud-init-per", "once", "rootfs-loader", "ldconfig"},
			{"cloud-init-per", "once", "rootfs-umount", "umount", "/mnt"},
		}
	}
	vendor, err := json.Marshal(wishes)
	if err != nil {
		return "", err
	}
	user := c.UserData
	if user == "" {
		user = "#cloud-config\n{}\n"
	}
	seed := filepath.Join(dir, "seed")
	if err := os.Mkdir(seed, 0o700); err != nil {
		return "", err
	}
	for name, content := range map[string]string{
		"meta-data": string(meta), "vendor-data": "#cloud-config\n" + string(vendor), "user-data": user,
	} {
		if err := os.WriteFile(filepath.Join(seed, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	if c.Rootfs != "" {
		raw, err := os.ReadFile(c.Rootfs)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(seed, "rootfs.tar"), raw, 0o600); err != nil {
			return "", err
		}
	}
	iso := filepath.Join(dir, "seed.iso")
	if err := run(ctx, "genisoimage", "-quiet", "-V", "cidata", "-J", "-r", "-o", iso, seed); err != nil {
		return "", fmt.Errorf("cannot make the NoCloud seed (apt-get install genisoimage): %w", err)
	}
	return iso, nil
}
