package tenancy

import (
	"bytes"
	"crypto/rsa"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
	"github.com/hostler/hostler/taskcatalog"
)

const (
	maxKeyLine    = 16 << 10 // bytes; allocation.provision_user takes lines of that length
	maxKeyComment = 100      // bytes
	minRSABits    = 2048
	maxRSABits    = 16384
)

// keyTypes are the types of keys that OpenSSH accepts for users. Certificates and DSA are not
// among them.
var keyTypes = map[string]bool{
	ssh.KeyAlgoED25519: true, ssh.KeyAlgoRSA: true, ssh.KeyAlgoECDSA256: true, ssh.KeyAlgoECDSA384: true, ssh.KeyAlgoECDSA521: true,
	ssh.KeyAlgoSKED25519: true, ssh.KeyAlgoSKECDSA256: true,
}

// ParseSSHKey reads one line of a .pub file: TYPE BASE64 COMMENT. Options such as command= are
// refused. The comment is cleaned and cut. Code: ssh_key_invalid.
func ParseSSHKey(line string) (broker.SSHKey, error) {
	bad := func(why string) (broker.SSHKey, error) {
		return broker.SSHKey{}, broker.Errorf(broker.Invalid, "ssh_key_invalid", "cannot add an SSH key: %s (give one line of a .pub file)", why)
	}
	line = strings.TrimSpace(line)
	switch {
	case len(line) > maxKeyLine:
		return bad("it is longer than 16 KiB")
	case strings.Contains(line, "PRIVATE KEY"), strings.Contains(line, "Private-Lines"): // OpenSSH and PEM, PuTTY
		return bad("it is a private key, which must not leave its owner")
	case strings.ContainsAny(line, "\r\n\x00"):
		return bad("it is more than one line")
	}
	key, comment, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return bad("it is not a public key")
	case len(options) > 0:
		return bad("it has options before its type")
	case !keyTypes[key.Type()]:
		return bad("its type " + taskcatalog.Clean(key.Type(), 64) + " is not accepted")
	}
	if shared, ok := key.(ssh.CryptoPublicKey); ok {
		if k, ok := shared.CryptoPublicKey().(*rsa.PublicKey); ok && (k.N.BitLen() < minRSABits || k.N.BitLen() > maxRSABits) {
			return bad("an RSA key has 2048 to 16384 bits")
		}
	}
	return broker.SSHKey{
		Type: key.Type(), PublicKey: string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(key))), Fingerprint: ssh.FingerprintSHA256(key),
		Comment: taskcatalog.Clean(strings.TrimSpace(comment), maxKeyComment),
	}, nil
}
