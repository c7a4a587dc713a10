package users

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/hostler/hostler/agent/host"
	"github.com/hostler/hostler/taskcatalog"
)

// CheckLogin proves that the user of an allocation can log in: the account is as it was provisioned,
// and the node's SSH server, asked at the node's own address, accepts the user's keys. It changes
// nothing.
func CheckLogin(ctx context.Context, r *host.Run) (any, taskcatalog.Report, error) {
	s := server{port: "22", own: interfaceAddresses, routed: routedAddresses}
	result, err := s.checkLogin(ctx, r.Host, r.Params.(*taskcatalog.CheckLoginParams))
	if result == nil {
		return nil, taskcatalog.Report{}, err
	}
	return result, taskcatalog.Report{}, err
}

// server is where the node's SSH server is looked for.
type server struct {
	port string
	own  func() ([]netip.Addr, error) // the node's addresses that others may reach
	// routed are the addresses from which the node reaches other networks.
	routed func() []netip.Addr
}

func (s server) checkLogin(ctx context.Context, h *host.Host, p *taskcatalog.CheckLoginParams) (*taskcatalog.CheckLoginResult, error) {
	keys, err := authorizedKeys(p.SSHKeys)
	if err != nil {
		return nil, err
	}
	if err := asProvisioned(h, p, keys); err != nil {
		return nil, err
	}
	addresses, err := s.addresses(p.Address)
	if err != nil {
		return nil, err
	}
	kinds, err := kindsOf(keys)
	if err != nil {
		return nil, err
	}
	var refused *taskcatalog.CheckLoginResult
	var failed error
	for _, a := range addresses {
		result, err := s.accepts(ctx, a, p.Username, kinds)
		switch {
		case err == nil && len(result.KeyTypes) > 0:
			return result, nil
		case err == nil && refused == nil:
			refused = result
		}
		failed = errors.Join(failed, err)
	}
	if refused != nil {
		return refused, taskcatalog.Errorf(taskcatalog.CodeKeysRefused,
			"cannot prove that %s can log in: the server at %s accepts none of the keys %s (use a key of another type, or look at sshd on the node)", p.Username,
			refused.Address, strings.Join(refused.RefusedKeys, ", "))
	}
	return nil, taskcatalog.Errorf("login_refused", "cannot prove that %s can log in: %v (look at sshd on the node)", p.Username, failed)
}

// asProvisioned checks the account, its home and its keys against the agent's record.
func asProvisioned(h *host.Host, p *taskcatalog.CheckLoginParams, keys []byte) error {
	changed := func(format string, args ...any) error {
		return taskcatalog.Errorf("user_changed", "the account %s is not as it was provisioned: %s (revoke the allocation)", p.Username,
			fmt.Sprintf(format, args...))
	}
	a, known, err := h.Accounts.ByAllocation(p.AllocationID)
	if err != nil {
		return err
	}
	if !known || a.Username != p.Username {
		return taskcatalog.Errorf("allocation_unknown", "the node has no user %s of allocation %s (provision it first)", p.Username, p.AllocationID)
	}
	user, there, err := h.Machine.UserNamed(p.Username)
	if err != nil {
		return err
	}
	if !there || user.UID != a.UID || user.GID != a.GID || user.Home != a.Home {
		return changed("its entry in /etc/passwd has uid %d, gid %d and home %q", user.UID, user.GID, user.Home)
	}
	dir := path.Join(a.Home, ".ssh")
	file := path.Join(dir, "authorized_keys")
	for name, mode := range map[string]uint32{a.Home: unix.S_IFDIR | 0o700, dir: unix.S_IFDIR | 0o700, file: unix.S_IFREG | 0o600} {
		st, err := h.Machine.Lstat(name)
		if err != nil {
			return changed("%v", err)
		}
		if st.Uid != a.UID || st.Mode != mode {
			return changed("%s belongs to uid %d and has mode %o", name, st.Uid, st.Mode)
		}
	}
	written, err := h.Machine.ReadStrict(file, int64(len(keys)))
	if err != nil || string(written) != string(keys) {
		return changed("%s does not hold the keys of the request", file)
	}
	return nil
}

// addresses are those at which the server is asked: the named one alone, if it is the node's own. MAAS
// may still have the address of the node's last system; then all of the node's own are asked. Those from
// which the node reaches other networks come first: a server that listens at all addresses listens at
// those of bridges for containers, too, which nobody reaches from outside.
func (s server) addresses(named string) ([]netip.Addr, error) {
	own, err := s.own()
	if err != nil {
		return nil, err
	}
	if len(own) == 0 {
		return nil, taskcatalog.Errorf("no_address", "the node has no address at which its user could log in (look at its network)")
	}
	if a, err := netip.ParseAddr(named); err == nil && slices.Contains(own, a.Unmap()) {
		return []netip.Addr{a.Unmap()}, nil
	}
	routed := s.routed()
	others := slices.DeleteFunc(slices.Clone(own), func(a netip.Addr) bool { return slices.Contains(routed, a) })
	return append(slices.DeleteFunc(own, func(a netip.Addr) bool { return slices.Contains(others, a) }), others...), nil
}

// routedAddresses asks the kernel from which addresses it would send to networks that exist nowhere.
// Nothing is sent. Without a default route there are none.
func routedAddresses() (out []netip.Addr) {
	for _, nowhere := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := net.Dial("udp", nowhere)
		if err != nil {
			continue
		}
		if a, is := conn.LocalAddr().(*net.UDPAddr); is {
			out = append(out, a.AddrPort().Addr().Unmap())
		}
		_ = conn.Close()
	}
	return out
}

// interfaceAddresses are the node's addresses but for loopback and link-local ones.
func interfaceAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("cannot read the node's addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out, nil
}

// kind are keys that a server treats alike: of one type and, for RSA, of one length.
type kind struct {
	sample       ssh.PublicKey
	fingerprints []string
}

// kindsOf sorts the keys by kind. The file holds all of them; whether the server takes a key depends on
// its kind, so the server is asked for one key of each.
func kindsOf(keys []byte) ([]kind, error) {
	var out []kind
	for rest := keys; len(rest) > 0; {
		key, _, _, next, err := ssh.ParseAuthorizedKey(rest)
		if err != nil {
			return nil, taskcatalog.Errorf(taskcatalog.CodeBadParams, "cannot check the login: an SSH key cannot be read: %v", err)
		}
		at := slices.IndexFunc(out, func(k kind) bool { return k.sample.Type() == key.Type() && rsaBits(k.sample) == rsaBits(key) })
		if at < 0 {
			at, out = len(out), append(out, kind{sample: key})
		}
		out[at].fingerprints = append(out[at].fingerprints, ssh.FingerprintSHA256(key))
		rest = next
	}
	return out, nil
}

// rsaBits is the length of an RSA key; 0: the key is of another type.
func rsaBits(key ssh.PublicKey) int {
	if c, is := key.(ssh.CryptoPublicKey); is {
		if k, is := c.CryptoPublicKey().(*rsa.PublicKey); is {
			return k.N.BitLen()
		}
	}
	return 0
}

// accepts asks the server at an address for a key of each kind, on a connection of its own. The error says
// that the server did not answer for each.
func (s server) accepts(ctx context.Context, a netip.Addr, user string, kinds []kind) (*taskcatalog.CheckLoginResult, error) {
	out := &taskcatalog.CheckLoginResult{Address: a.String(), KeyTypes: []string{}}
	for _, k := range kinds {
		hostKey, accepted, err := s.acceptsKey(ctx, net.JoinHostPort(a.String(), s.port), user, k.sample)
		if err != nil {
			return nil, err
		}
		out.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(hostKey)))
		switch {
		case !accepted:
			out.RefusedKeys = append(out.RefusedKeys, k.fingerprints...)
		case !slices.Contains(out.KeyTypes, k.sample.Type()):
			out.KeyTypes = append(out.KeyTypes, k.sample.Type())
		}
	}
	return out, nil
}

// handshake is the longest time that the server may take for one key.
const handshake = 10 * time.Second

// acceptsKey asks the server whether it takes a key of the user. A client offers the public key first,
// and signs only after the server has said that the key would do: this client ends there, because it
// has no private key. An error says that the server gave no answer.
func (s server) acceptsKey(ctx context.Context, address, user string, key ssh.PublicKey) (hostKey ssh.PublicKey, accepted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	offer := &offered{key: key}
	client, _, _, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(offer)}, ClientVersion: "SSH-2.0-hostler",
		HostKeyAlgorithms: hostKeyAlgorithms,
		HostKeyCallback:   func(_ string, _ net.Addr, key ssh.PublicKey) error { hostKey = key; return nil },
	})
	switch {
	case err == nil: // impossible for a server that checks signatures
		_ = client.Close()
		return nil, false, fmt.Errorf("the server at %s lets %s in without a signature", address, user)
	case !offer.accepted && (hostKey == nil || ctx.Err() != nil || brokeOff(err)):
		return nil, false, fmt.Errorf("the server at %s gives no answer for the %s key of %s: %w", address, key.Type(), user, err)
	}
	return hostKey, offer.accepted, nil
}

// brokeOff reports whether a connection ended before the server had answered.
func brokeOff(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// hostKeyAlgorithms prefers the key that clients ask for first.
var hostKeyAlgorithms = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}

// offered is a key without its private half. It notes whether a signature was asked for.
type offered struct {
	key      ssh.PublicKey
	accepted bool
}

func (o *offered) PublicKey() ssh.PublicKey { return o.key }

// SignWithAlgorithm makes RSA keys be offered with the algorithms of today.
func (o *offered) SignWithAlgorithm(io.Reader, []byte, string) (*ssh.Signature, error) {
	o.accepted = true
	return nil, errors.New("the private key is the user's")
}

func (o *offered) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return o.SignWithAlgorithm(rand, data, "")
}
