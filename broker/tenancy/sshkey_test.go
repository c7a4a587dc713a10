package tenancy_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/broker/tenancy"
)

// publicLine is a line of a .pub file, without a comment.
func publicLine(t *testing.T, key any) string {
	t.Helper()
	public, err := ssh.NewPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

func newKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return publicLine(t, public)
}

func TestAnSSHKeyIsKeptWithoutWhatIsNotTheKey(t *testing.T) {
	line := newKey(t)
	k, err := tenancy.ParseSSHKey("  " + line + " ada@host\x1b[31m" + strings.Repeat("x", 300) + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if k.Type != "ssh-ed25519" || k.PublicKey != line || !strings.HasPrefix(k.Fingerprint, "SHA256:") {
		t.Errorf("%+v", k)
	}
	if !strings.HasPrefix(k.Comment, `ada@host\x1b[31mxx`) || len(k.Comment) > 100 {
		t.Errorf("the comment is %q", k.Comment)
	}
}

func TestWhichSSHKeysAreTaken(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GODEBUG", "rsa1024min=0")
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := newKey(t)
	for name, row := range map[string]struct {
		line string
		good bool
	}{
		"ed25519":       {good, true},
		"ecdsa":         {publicLine(t, &curve.PublicKey), true},
		"rsa":           {publicLine(t, &strong.PublicKey), true},
		"short rsa":     {publicLine(t, &weak.PublicKey), false},
		"an option":     {`command="reboot" ` + good, false},
		"two lines":     {good + "\n" + good, false},
		"nothing":       {"", false},
		"a comment":     {"# " + good, false},
		"no key":        {"ssh-ed25519 AAAA", false},
		"a private key": {"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", false},
		"PuTTY's":       {"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\nAAAA\n", false},
		"too long":      {good + " " + strings.Repeat("x", 17<<10), false},
		"another type":  {"ssh-dss " + strings.TrimPrefix(good, "ssh-ed25519 "), false},
	} {
		_, err := tenancy.ParseSSHKey(row.line)
		if (err == nil) != row.good || err != nil && broker.AsError(err).Code != "ssh_key_invalid" {
			t.Errorf("%s: %v", name, err)
		}
		if said := err != nil && strings.Contains(err.Error(), "private key"); said != (name == "a private key" || name == "PuTTY's") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
