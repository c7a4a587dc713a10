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

// What is spoken. It is a list of ours, so that no release of the library adds to
// it; every sshd that is still looked after knows some of each.
var (
	exchanges = []string{ssh.KeyExchangeMLKEM768X25519, ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeECDHP384}
	ciphers   = []string{ssh.CipherAES128GCM, ssh.CipherAES256GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES128CTR, ssh.CipherAES256CTR}
	macs      = []string{ssh.HMACSHA256ETM, ssh.HMACSHA512ETM, ssh.HMACSHA256, ssh.HMACSHA512}
	hostKeys  = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
)

func config(algorithms []string, check ssh.HostKeyCallback) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		Config:          ssh.Config{KeyExchanges: exchanges, Ciphers: ciphers, MACs: macs},
		ClientVersion:   "SSH-2.0-Hostler",
		HostKeyCallback: check, HostKeyAlgorithms: algorithms,
	}
}

var (
	errSeen = errors.New("that is all we wanted to know")
	errWeak = errors.New("its host key is an RSA key of less than 2048 bits, or more than 16384")
)

// firstUse notes the host key that a machine proves to have, and goes no further.
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

// keyChanged is a host key that is not the one that was noted.
type keyChanged struct{ noted, shown string }

func (e *keyChanged) Error() string {
	return fmt.Sprintf("it had %s, and has %s", e.noted, e.shown)
}

// pin takes the noted host key and no other, and logs in by the deploy user's key.
func pin(h Host) (*ssh.ClientConfig, error) {
	noted, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, broker.Errorf(broker.Refused, HostKeyChanged, "cannot seed a machine of which no host key was noted")
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

// Fingerprint is a noted host key as people compare it.
func Fingerprint(hostKey string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(hostKey))
	if err != nil {
		return "none"
	}
	return ssh.FingerprintSHA256(key)
}

// loginRefused reports whether the machine heard who wants to log in, and said no.
// The library has a text for that and no type.
func loginRefused(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unable to authenticate")
}
