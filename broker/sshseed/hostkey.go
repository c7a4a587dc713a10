package sshseed

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hostler/hostler/broker"
)

// The allowed algorithms. The list is fixed here, and no release of the library can add to it;
// every sshd that is still maintained knows some of each.
var (
	exchanges = []string{ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeECDHP384}
	ciphers   = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES128CTR, ssh.CipherAES256CTR}
	macs      = []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM, ssh.HMACSHA256, ssh.HMACSHA512}
	hostKeys  = []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512,
		ssh.KeyAlgoRSASHA256,
	}
)

func config(algorithms []string, check ssh.HostKeyCallback) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		Config:          ssh.Config{KeyExchanges: exchanges, Ciphers: ciphers, MACs: macs},
		ClientVersion:   "SSH-2.0-Hostler",
		HostKeyCallback: check, HostKeyAlgorithms: algorithms,
	}
}

var (
	errSeen = errors.New("the host key is read")
	errWeak = errors.New("its host key is an RSA key of less than 2048 bits, or more than 16384")
)

// firstUse records the host key that a machine proves to have, and ends the handshake there.
type firstUse struct{ key string }

func (f *firstUse) config() *ssh.ClientConfig {
	return config(hostKeys, func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if known, ok := key.(ssh.CryptoPublicKey); ok {
			if k, is := known.CryptoPublicKey().(*rsa.PublicKey); is && (k.N.BitLen() < 2048 || k.N.BitLen() > 16384) {
				return errWeak
			}
		}
		f.key = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
		return errSeen
	})
}

// keyChanged is the error of a host key other than the recorded key.
type keyChanged struct{ noted, shown string }

func (e *keyChanged) Error() string {
	return fmt.Sprintf("the machine had %s, and has %s", e.noted, e.shown)
}

// pin accepts only the recorded host key, and logs in with the deploy user's key.
func pin(h Host) (*ssh.ClientConfig, error) {
	noted, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, broker.Errorf(broker.Refused, HostKeyChanged, "cannot seed a machine without a recorded host key")
	}
	algorithms := []string{noted.Type()}
	if noted.Type() == ssh.KeyAlgoRSA {
		algorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	c := config(algorithms, func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if !bytes.Equal(key.Marshal(), noted.Marshal()) {
			return &keyChanged{ssh.FingerprintSHA256(noted), ssh.FingerprintSHA256(key)}
		}
		return nil
	})
	c.User, c.Auth = h.User, []ssh.AuthMethod{ssh.PublicKeys(h.Key)}
	return c, nil
}

// Fingerprint returns a recorded host key in the form that people compare.
func Fingerprint(hostKey string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(hostKey))
	if err != nil {
		return "none"
	}
	return ssh.FingerprintSHA256(key)
}

// loginRefused reports whether the machine received the login and refused it. The library has a
// text for this case and no type.
func loginRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unable to authenticate")
}
